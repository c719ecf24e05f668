-- snapshot: what every queue holds and has done, in one consistent view.
-- KEYS  1 root of the gate
-- ARGV  1 how many tenants a queue at most   2.. names of the stock lists that are inlets, each after its queue
-- Reply msgpack map
-- Cost  O(queues x (tenants shown + bins) + downstreams x bins); does not depend on the number of jobs.
-- @include base
local out = {now = now, queues = {}, tenants = {}, workers = {}}
local function hash(key)
  local flat, map = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do map[flat[i]] = flat[i + 1] end
  return map
end
local function bins(name, q)
  local sum, slot = {}, math.floor(now / 10000)
  for back = 0, 6 do
    local flat = redis.call('HGETALL', root .. name .. ':' .. q .. ':' .. string.format('%d', slot - back))
    for i = 1, #flat, 2 do sum[flat[i]] = (sum[flat[i]] or 0) + tonumber(flat[i + 1]) end
  end
  return sum
end
out.policies = hash(root .. 'policies')
out.modes = hash(root .. 'modes:detail')
out.mode_since = hash(root .. 'modes:since')
local shown = tonumber(ARGV[1])
out.suspended = hash(root .. 'suspended')
-- Ordering keys that hold work back, the longest first: who holds each, since when, and how many wait.
local KEYS_SHOWN = 5
-- How many jobs stand aside for a downstream that their task names; of many keys those that wait longest.
local PARKS_SHOWN = 16
local function set_aside(q)
  local counts = {}
  for _, key in ipairs(redis.call('ZRANGE', root .. 'parks:' .. q, 0, PARKS_SHOWN - 1)) do
    if string.sub(key, 1, 2) == 's:' then counts[string.sub(key, 3)] = redis.call('ZCARD', park_key(q, key)) end
  end
  return counts
end
local function blocked_keys(q, most)
  local rows, found = {}, redis.call('ZRANGE', root .. 'blocked:' .. q, 0, most - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    local key = root .. 'order:' .. q .. '|' .. found[i]
    local first = redis.call('ZRANGE', key, 0, 0)[1]
    local rec = first and read_record(first) or {}
    rows[#rows + 1] = {member = found[i], holder = first or '', state = rec.s or false, epoch = rec.ep or false,
      worker = rec.w or false, since = rec.st or rec.cl or rec.e or rec.a or false,
      waiting = math.max(0, redis.call('ZCARD', key) - 1), oldest = to_ms(tonumber(found[i + 1]))}
  end
  return rows
end
-- Of more tenants than are shown: half are those whose work has waited longest, so that who holds a backlog is
-- among them from one sample to the next; the rest are those that offered last.
local function tenants_shown(q, known)
  local latest = redis.call('ZREVRANGE', root .. 'tenants:' .. q, 0, shown - 1)
  if known <= shown then return latest end
  local names = redis.call('ZRANGE', root .. 'heads:' .. q, 0, math.floor(shown / 2) - 1)
  local taken = {}
  for _, n in ipairs(names) do taken[n] = true end
  for _, n in ipairs(latest) do
    if #names >= shown then break end
    if not taken[n] then names[#names + 1] = n end
  end
  return names
end
for q in pairs(out.policies) do
  local head = redis.call('ZRANGE', root .. 'heads:' .. q, 0, 0, 'WITHSCORES')
  local due = redis.call('ZRANGE', root .. 'delayed:' .. q, 0, 0, 'WITHSCORES')
  -- A delayed job past its due time is eligible, though nobody has moved it yet.
  local oldest = head[2] and to_ms(tonumber(head[2])) or false
  local next_due = due[2] and tonumber(due[2]) or false
  if next_due and next_due <= now and (not oldest or next_due < oldest) then oldest = next_due end
  local aside = redis.call('ZRANGE', root .. 'parks:' .. q, 0, 0, 'WITHSCORES')
  local aside_at = aside[2] and to_ms(tonumber(aside[2]))
  if aside_at and (not oldest or aside_at < oldest) then oldest = aside_at end
  out.queues[q] = {totals = totals_of(q).now, oldest = oldest, next_due = next_due,
    set_aside = aside_at and set_aside(q) or {},
    waits = bins('waits', q), services = bins('services', q), model = hash(root .. 'model:' .. q), inlet = 0}
  local spilled = redis.call('ZRANGE', root .. 'spill:' .. q, 0, 0, 'WITHSCORES')
  out.queues[q].spill_oldest = spilled[2] and to_ms(tonumber(spilled[2])) or false
  out.queues[q].blocked_keys_known = redis.call('ZCARD', root .. 'blocked:' .. q)
  out.queues[q].blocked_keys = out.queues[q].blocked_keys_known > 0 and blocked_keys(q, KEYS_SHOWN) or {}
  local known = redis.call('ZCARD', root .. 'tenants:' .. q)
  for _, n in ipairs(tenants_shown(q, known)) do
    local oldest_own = redis.call('ZSCORE', root .. 'heads:' .. q, n)
    out.tenants[#out.tenants + 1] = {queue = q, tenant = n, totals = tenant_of(q, n).now,
      oldest = oldest_own and to_ms(tonumber(oldest_own)) or false}
  end
  -- What suspended tenants have waiting is there, but nobody is to run it.
  local held, held_cost = 0, 0
  for n in pairs(out.suspended) do
    local own = tenant_of(q, n).now
    held = held + (own.depth or 0); held_cost = held_cost + (own.cost_ms or 0)
  end
  out.queues[q].held = held; out.queues[q].held_cost_ms = held_cost
  out.queues[q].tickets_line = redis.call('ZCARD', root .. 'tickets:line:' .. q)
  out.queues[q].tickets_called = redis.call('ZCARD', root .. 'tickets:called:' .. q)
  out.queues[q].producers = redis.call('ZCOUNT', root .. 'credits:until:' .. q, now, '+inf')
  out.queues[q].tenants_known = known
end
for i = 2, #ARGV, 2 do
  local q = gated(ARGV[i])
  if out.queues[q] and redis.call('TYPE', ARGV[i + 1]).ok == 'list' then
    out.queues[q].inlet = out.queues[q].inlet + redis.call('LLEN', ARGV[i + 1])
  end
end
local beats = redis.call('ZREVRANGE', root .. 'workers', 0, 199, 'WITHSCORES')
for i = 1, #beats, 2 do
  out.workers[#out.workers + 1] = {name = beats[i], beat = tonumber(beats[i + 1]),
    about = redis.call('HGET', root .. 'worker', beats[i]) or ''}
end
out.downstreams = {}
for d, document in pairs(hash(root .. 'downstreams')) do
  out.downstreams[#out.downstreams + 1] = {name = d, settings = document, limit = hash(root .. 'limit:' .. d),
    in_flight = redis.call('SCARD', root .. 'calls:' .. d), latencies = bins('latencies', d), gated = bins('gated', d)}
end
local HELD_MS = 3000
local seen = redis.call('ZRANGEBYSCORE', root .. 'producers:seen', now - HELD_MS, '+inf', 'LIMIT', 0, 1000)
out.holds = #seen > 0 and redis.call('HMGET', root .. 'producers', unpack(seen)) or {}
local first = redis.call('ZRANGE', root .. 'spool', 0, 0, 'WITHSCORES')
out.spool = {count = redis.call('ZCARD', root .. 'spool'), oldest = first[2] and tonumber(first[2]) or false}
return cmsgpack.pack(out)
