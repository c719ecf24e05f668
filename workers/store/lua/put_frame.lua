-- put_frame: stores the newest frame, in a full Redis too: pages and the API must be able to say that it is full.
-- KEYS  1 root of the gate
-- ARGV  1 frame, a JSON document
-- Reply msgpack {now, "stored"}
-- Cost  O(1).
-- @include base
redis.call('DEL', root .. 'nothing')
local frame = ARGV[1]
redis.call('SET', root .. 'frame', frame)
return cmsgpack.pack({now, 'stored'})
