-- fence: lets a holder write to a resource unless a newer holder has written before.
-- KEYS  1 root of the gate
-- ARGV  1 resource   2 epoch of the holder
-- Reply msgpack {now, 1|0}
-- Cost  O(1).
-- @include base
redis.call('DEL', root .. 'nothing')
local key, epoch = root .. 'fence:' .. ARGV[1], tonumber(ARGV[2])
local newest = tonumber(redis.call('GET', key) or 0)
if epoch < newest then return cmsgpack.pack({now, 0}) end
redis.call('SET', key, ARGV[2], 'PX', 86400000)
return cmsgpack.pack({now, 1})
