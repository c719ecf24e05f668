-- adopt: counts the jobs that run already under caps and downstreams that came after they had started.
-- KEYS  1 root of the gate
-- ARGV  1 how many leases at most
-- Reply msgpack {now, how many were counted}
-- Cost  O(jobs in flight).
-- @include base
-- @include life
-- @include downstream
-- @include parking
redis.call('DEL', root .. 'nothing')
local counted = 0
for _, id in ipairs(redis.call('ZRANGE', root .. 'leases', 0, tonumber(ARGV[1]) - 1)) do
  local rec = read_record(id)
  if rec and rec.s == 'leased' then
    local task, d = rec.kt, rec.kd
    hold(id, rec, policy_or_default(rec.q))
    if rec.kt ~= task or rec.kd ~= d then
      write_record(id, rec)
      counted = counted + 1
    end
  end
end
flush()
return cmsgpack.pack({now, counted})
