-- size: how many jobs wait or are delayed in a queue.
-- KEYS  1 root of the gate
-- ARGV  1 queue
-- Reply msgpack {now, number}
-- Cost  O(1).
-- @include base
local held = totals_of(gated(ARGV[1])).now
return cmsgpack.pack({now, (held.depth or 0) + (held.delayed or 0)})
