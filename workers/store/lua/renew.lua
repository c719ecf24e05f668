-- renew: a worker's heartbeat. Renews the leases it holds, notes what has started, says what it lost.
-- KEYS  1 root of the gate
-- ARGV  1 worker name   2 description (JSON)   3.. one msgpack map a lease: i id, e epoch, st started_at_ms or nil
-- Reply msgpack {now, lost ids, ids asked to stop}
-- Cost  O(leases log n); about five commands a lease.
-- @include base
redis.call('DEL', root .. 'nothing')
if ARGV[2] ~= '' then
  redis.call('ZADD', root .. 'workers', now, ARGV[1])
  redis.call('HSET', root .. 'worker', ARGV[1], ARGV[2])
end
local lost, stop = {}, {}
for i = 3, #ARGV do
  local a = cmsgpack.unpack(ARGV[i])
  local rec = read_record(a.i)
  if not rec or rec.s ~= 'leased' or rec.ep ~= a.e then
    lost[#lost + 1] = a.i
  else
    redis.call('ZADD', root .. 'leases', now + (policy_or_default(rec.q).lease_s or 10) * 1000, a.i)
    if type(a.st) == 'number' and not rec.st then
      rec.st = a.st
      rec.fs = rec.fs or a.st
      rec.at = (rec.at or 0) + 1
      bump(rec.q, rec.n, 'started', 1)
      write_record(a.i, rec)
    end
    if rec.cr then stop[#stop + 1] = a.i end
  end
end
flush()
return cmsgpack.pack({now, lost, stop})
