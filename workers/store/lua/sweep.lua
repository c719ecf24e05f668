-- sweep: removes what has outlived its use: settled records, tombstones, unused links, silent workers and
-- producers, idle tenants; lets the keys go on whose first job is gone, and takes back what no lease holds.
-- KEYS  1 root of the gate
-- ARGV  1 how many of each at most   2.. queue names
-- Reply msgpack {now, how many were removed}
-- Cost  O(most x queues + downstreams).
-- @include base
-- @include life
-- @include credits
-- @include tickets
local most, removed = tonumber(ARGV[1]), 0
redis.call('DEL', root .. 'nothing')
removed = removed + forget_settled(most)
removed = removed + redis.call('ZREMRANGEBYSCORE', root .. 'tombstones', '-inf', now)
local links = redis.call('ZRANGEBYSCORE', root .. 'links:until', '-inf', now, 'LIMIT', 0, most)
if #links > 0 then
  redis.call('ZREM', root .. 'links:until', unpack(links))
  redis.call('HDEL', root .. 'links', unpack(links))
  removed = removed + #links
end
local WORKER_MS = 300000
local silent = redis.call('ZRANGEBYSCORE', root .. 'workers', '-inf', now - WORKER_MS, 'LIMIT', 0, most)
if #silent > 0 then
  redis.call('ZREM', root .. 'workers', unpack(silent))
  redis.call('HDEL', root .. 'worker', unpack(silent))
  removed = removed + #silent
end
local ended = redis.call('ZRANGEBYSCORE', root .. 'producers:seen', '-inf', now - WORKER_MS, 'LIMIT', 0, most)
if #ended > 0 then
  redis.call('ZREM', root .. 'producers:seen', unpack(ended))
  redis.call('HDEL', root .. 'producers', unpack(ended))
  removed = removed + #ended
end
local kept_s = tonumber(rule('retention_s')) or RETENTION_S
local dropped = redis.call('ZRANGEBYSCORE', root .. 'dropped:at', '-inf', now - kept_s * 1000, 'LIMIT', 0, most)
if #dropped > 0 then
  redis.call('ZREM', root .. 'dropped:at', unpack(dropped))
  redis.call('HDEL', root .. 'dropped', unpack(dropped))
  removed = removed + #dropped
end
-- A key whose first job is gone (its record deleted, or ended without a word to the key) goes on with the next.
local PENDING = {waiting = true, delayed = true, leased = true}
local function mend_key(q, member)
  local key = root .. 'order:' .. q .. '|' .. member
  local first = redis.call('ZRANGE', key, 0, 0)[1]
  local rec = first and read_record(first)
  if rec and PENDING[rec.s] then return end
  local size, rest = string.match(member, '^(%d+)|(.*)$')
  local n = string.sub(rest, 1, tonumber(size))
  let_next_pass(first or '', {q = q, n = n, ok = string.sub(rest, tonumber(size) + 2)})
  removed = removed + 1
end
-- Who holds a call or a place of a task without a lease: its record was deleted from under the gate.
local function mend_holders(key)
  for _, id in ipairs(redis.call('SRANDMEMBER', key, 100)) do
    if not redis.call('ZSCORE', root .. 'leases', id) then removed = removed + redis.call('SREM', key, id) end
  end
end
for _, d in ipairs(redis.call('HKEYS', root .. 'downstreams')) do mend_holders(root .. 'calls:' .. d) end
for i = 2, #ARGV do
  local q = ARGV[i]
  for task in pairs(policy_or_default(q).max_in_flight_per_task or {}) do mend_holders(root .. 'running:' .. q .. '|' .. task) end
  for _, member in ipairs(redis.call('ZRANGE', root .. 'blocked:' .. q, 0, 99)) do mend_key(q, member) end
  removed = removed + expire_grants(q, most) + expire_tickets(q, most)
  local idle = redis.call('ZRANGEBYSCORE', root .. 'tenants:' .. q, '-inf', now - TENANT_MS, 'LIMIT', 0, most)
  for _, n in ipairs(idle) do
    local sheet = tenant_of(q, n)
    local own = sheet.now
    if not own.held and (own.tickets or 0) == 0 and (own.depth or 0) + (own.delayed or 0) + (own.in_flight or 0) == 0 then
      redis.call('ZREM', root .. 'tenants:' .. q, n)
      redis.call('DEL', tenant_key(q, n))
      sheet.changed = false
      removed = removed + 1
      add(totals_of(q), 'tenants', -1)
    end
  end
end
flush()
return cmsgpack.pack({now, removed})
