-- unspool: forgets quarantined jobs that the recorder has copied to the database.
-- KEYS  1 root of the gate
-- ARGV  1.. ids
-- Reply msgpack {now, how many}
-- Cost  O(log n) an id.
-- @include base
local removed = 0
for i = 1, #ARGV do
  removed = removed + redis.call('ZREM', root .. 'spool', ARGV[i])
  redis.call('HDEL', root .. 'quarantined', ARGV[i])
  redis.call('HDEL', payloads_key, ARGV[i])
end
return cmsgpack.pack({now, removed})
