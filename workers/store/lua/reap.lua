-- reap: takes back the leases that ran out, promotes what is due, and lets spilled jobs in.
-- KEYS  1 root of the gate
-- ARGV  1 how many at most   2.. queue names whose due and spilled jobs are moved on
-- Reply msgpack {now, {{id, queue, task, worker, deliveries, new state}, ...}, promoted}
-- Cost  O(jobs log n), at most ARGV[1] leases 100 due and 200 spilled jobs a queue.
-- @include base
-- @include life
-- @include spill
-- @include downstream
redis.call('DEL', root .. 'nothing')
local ended = redis.call('ZRANGEBYSCORE', root .. 'leases', '-inf', now, 'LIMIT', 0, tonumber(ARGV[1]))
local out = {}
for _, id in ipairs(ended) do
  redis.call('ZREM', root .. 'leases', id)
  local rec = read_record(id)
  if rec and rec.s == 'leased' then
    local worker = rec.w or ''
    bump(rec.q, rec.n, 'in_flight', -1)
    let_go(id, rec)
    lose(id, rec)
    out[#out + 1] = {id, rec.q, rec.t, worker, rec.dl or 0, rec.s}
  end
end
local promoted = 0
for i = 2, #ARGV do promoted = promoted + promote(ARGV[i], 100) end
for i = 2, #ARGV do take_in(ARGV[i], 200) end
flush()
return cmsgpack.pack({now, out, promoted})
