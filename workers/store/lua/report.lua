-- report: counts refusals that producers made by themselves while they knew a queue to be closed.
-- KEYS  1 root of the gate
-- ARGV  quadruples: queue, tenant, reason, how many
-- Reply msgpack {now}
-- Cost  O(1) a quadruple.
-- @include base
redis.call('DEL', root .. 'nothing')
for i = 1, #ARGV, 4 do
  local q, n, by = gated(ARGV[i]), ARGV[i + 1], tonumber(ARGV[i + 3])
  bump(q, n, 'offered', by)
  bump(q, n, 'refused', by)
  bump(q, n, 'refused:' .. ARGV[i + 2], by)
end
for i = 1, #ARGV, 4 do let_stranger_expire(gated(ARGV[i]), ARGV[i + 1]) end
flush()
return cmsgpack.pack({now})
