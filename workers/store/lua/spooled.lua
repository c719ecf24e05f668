-- spooled: quarantined jobs that have not been copied yet, oldest first, as many as fit into a number of bytes.
-- KEYS  1 root of the gate
-- ARGV  1 how many at most   2 bytes of records and payloads at most (the first job is given whatever its size)
-- Reply msgpack {now, {{id, at, record (msgpack), payload}, ..}}
-- Cost  O(log n + that many), and the bytes that it gives.
-- @include base
local found = redis.call('ZRANGE', root .. 'spool', 0, ARGV[1] - 1, 'WITHSCORES')
local most, size, out = tonumber(ARGV[2]), 0, {}
for i = 1, #found, 2 do
  local id = found[i]
  local record = redis.call('HGET', root .. 'quarantined', id)
  if record then
    -- The length is asked before the payload: one that does not fit is not even read.
    size = size + #record + redis.call('HSTRLEN', payloads_key, id)
    if size > most and #out > 0 then break end
    out[#out + 1] = {id, tonumber(found[i + 1]), record, redis.call('HGET', payloads_key, id) or ''}
  end
end
return cmsgpack.pack({now, out})
