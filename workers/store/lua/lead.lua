-- lead: takes, keeps or gives up a leadership lease.
-- KEYS  1 root of the gate
-- ARGV  1 lease key   2 holder   3 ttl in ms (0 = give up)
-- Reply msgpack {now, 1|0: held by this holder after the call}
-- Cost  O(1).
-- @include base
redis.call('DEL', root .. 'nothing')
local holder = redis.call('GET', ARGV[1])
if ARGV[3] == '0' then
  if holder == ARGV[2] then redis.call('DEL', ARGV[1]) end
  return cmsgpack.pack({now, 0})
end
if holder and holder ~= ARGV[2] then return cmsgpack.pack({now, 0}) end
redis.call('SET', ARGV[1], ARGV[2], 'PX', ARGV[3])
return cmsgpack.pack({now, 1})
