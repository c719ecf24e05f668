-- mark_replayed: notes on a failed operation which one replayed it.
-- KEYS  1 root of the gate
-- ARGV  1 old id   2 new id
-- Reply msgpack {now, "marked"|"unknown"}
-- Cost  O(1).
-- @include base
local rec = read_record(ARGV[1])
if not rec then return cmsgpack.pack({now, 'unknown'}) end
rec.ra = ARGV[2]
write_record(ARGV[1], rec)
return cmsgpack.pack({now, 'marked'})
