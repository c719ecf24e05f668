-- reorder: makes the deadlines of what waits already known, or forgets them, after a queue's order has changed.
-- KEYS  1 root of the gate
-- ARGV  1 queue   2 tenant to go on with ("" = the first)   3 score after which to go on in its line   4 how many at most
-- Reply msgpack {now, tenant to go on with ("" = done), score to go on after}
-- Cost  O(tenants log tenants + most log n).
-- @include base
redis.call('DEL', root .. 'nothing')
local q, most = ARGV[1], tonumber(ARGV[4])
-- Known tenants in the order of their names: none is passed over, whoever comes and goes meanwhile.
local names = redis.call('ZRANGE', root .. 'tenants:' .. q, 0, -1)
table.sort(names)
local n
for _, name in ipairs(names) do
  if name >= ARGV[2] then n = name; break end
end
if not n then return cmsgpack.pack({now, '', '-inf'}) end
local last
if policy_or_default(q).order == 'edf' then
  local after = n == ARGV[2] and ARGV[3] ~= '-inf' and '(' .. ARGV[3] or '-inf'
  local ids = redis.call('ZRANGEBYSCORE', ready_key(q, n), after, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
  for i = 1, #ids, 2 do
    local rec = read_record(ids[i])
    if rec and rec.dd then redis.call('ZADD', deadlines_key(q, n), rec.dd, ids[i]) end
  end
  if #ids == 2 * most then last = ids[#ids] end
else
  redis.call('DEL', deadlines_key(q, n))
end
if last then return cmsgpack.pack({now, n, last}) end
return cmsgpack.pack({now, n .. '\0', '-inf'})
