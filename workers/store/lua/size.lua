-- size: how many jobs wait or are delayed in a queue.
-- KEYS  1 root of the gate
-- ARGV  1 queue
-- Reply msgpack {now, number}
-- Cost  O(1).
-- @include base
local row = redis.call('HMGET', totals_key(gated(ARGV[1])), 'depth', 'delayed')
return cmsgpack.pack({now, tonumber(row[1] or 0) + tonumber(row[2] or 0)})
