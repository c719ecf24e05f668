-- bounds: what a queue and a tenant in it hold, which bound an offer would pass, and when it should come back.
-- Included by admit.
-- What a queue holds, read once and kept true over the offers of this call.
local views = {}
-- When the oldest that waits became eligible, whether it stands in a line or was set aside.
local function oldest_of(q, v)
  local head = redis.call('ZRANGE', root .. 'heads:' .. q, 0, 0, 'WITHSCORES')[2]
  local aside = v.parked > 0 and redis.call('ZRANGE', root .. 'parks:' .. q, 0, 0, 'WITHSCORES')[2]
  if aside and (not head or tonumber(aside) < tonumber(head)) then head = aside end
  return head and to_ms(tonumber(head))
end

-- The bounds in jobs and work that stand: what the policy states, shrunk to the part of the slots that the
-- queue's downstream lets work, and what its promised wait allows (Little's law, forecast/promise.py). `open_*`
-- are the same with the downstream out of the way. Before anything is measured the prior stands.
local PRIOR_SLOTS, PRIOR_MS = 4, 100
local function set_bounds(q, v)
  local p = v.policy
  v.max_count, v.max_cost, v.open_count, v.open_cost = p.max_count, p.max_cost_ms, p.max_count, p.max_cost_ms
  if not p.max_wait_s and not p.downstream then return end
  local m = redis.call('HMGET', root .. 'model:' .. q, 'work_rate', 'job_rate', 'least_wait_s', 'downstream_share')
  local behind = p.downstream and math.min(1, math.max(0.01, tonumber(m[4] or 1))) or 1
  v.max_count = v.max_count and v.max_count * behind
  v.max_cost = v.max_cost and v.max_cost * behind
  if p.max_wait_s then
    local wait = math.max(p.max_wait_s, tonumber(m[3] or PRIOR_MS / 1000))
    local jobs = math.max(1, math.floor(wait * tonumber(m[2] or PRIOR_SLOTS * 1000 / PRIOR_MS)))
    local work = math.max(1, math.floor(wait * tonumber(m[1] or PRIOR_SLOTS * 1000)))
    v.max_count = math.min(jobs, v.max_count or math.huge)
    v.max_cost = math.min(work, v.max_cost or math.huge)
    v.open_count = math.min(jobs / behind, v.open_count or math.huge)
    v.open_cost = math.min(work / behind, v.open_cost or math.huge)
  end
end

local function view(q)
  local v = views[q]
  if not v then
    local has, spilled = totals_of(q).now, totals_of(q).now.spilled or 0
    local mode, till = mode_in_force(q)
    -- Every field at once: a table that grows is made anew at each power of two.
    v = {policy = policy_or_default(q), tenants = {}, depth = has.depth or 0, bytes = has.bytes or 0, cost_ms = has.cost_ms or 0,
      delayed = (has.delayed or 0) - spilled, -- what is spilled has bounds of its own
      spilled = spilled, spilled_bytes = has.spilled_bytes or 0, parked = has.parked or 0, mode = mode, till = till,
      barred = rule('barred'), max_count = false, max_cost = false, open_count = false, open_cost = false}
    set_bounds(q, v)
    views[q] = v
  end
  return v
end
local function tenant_view(q, n)
  local v = view(q)
  local t = v.tenants[n]
  if not t then
    local held = tenant_of(q, n).now
    t = {bytes = held.bytes or 0, cost = held.cost_ms or 0, spilled = held.spilled or 0, spilled_bytes = held.spilled_bytes or 0}
    t.count = (held.depth or 0) + (held.delayed or 0) - t.spilled
    v.tenants[n] = t
  end
  return t
end

local function cost_of(o)
  if o.c then return math.max(1, math.floor(o.c)) end
  return tonumber(rule('cost|' .. o.t)) or 100
end

local function has_several_tenants(q, n)
  local known = totals_of(q).now.tenants or 0
  return known > 1 or (known == 1 and not tenant_of(q, n).now.met)
end

-- What stands aside in this queue for a downstream that tasks name, and the part of the queue's bounds that it
-- lets work (forecast/model.py): its jobs may take no more, and leave the rest to those that do not call it.
local standing = {}
local function standing_for(q, d)
  local key = q .. '|' .. d
  if not standing[key] then
    local jobs = redis.call('ZCARD', park_key(q, 's:' .. d))
    local part = jobs > 0 and redis.call('HGET', root .. 'model:' .. q, 'through:' .. d)
    standing[key] = {jobs = jobs, part = math.min(1, math.max(0.01, tonumber(part or 1)))}
  end
  return standing[key]
end
local function calls_its_own(o, v) return o.ds and o.ds ~= v.policy.downstream and v.parked > 0 end

-- The first bound that the offer would pass, or nil. Figures say which number stood against which, and for a
-- reason that has bounds of several kinds, of which kind (count, bytes or cost) they are. `room`
-- stretches the bounds of count, bytes and cost (1 unless said).
local function bound_passed(o, q, v, cost, room)
  local p = v.policy
  if p.max_bytes and o.b > p.max_bytes then return 'size', o.b, p.max_bytes end
  if v.mode == 'failed' then return 'unavailable' end
  if v.mode == 'draining' and not (p.admit_while_draining == 1) then return 'mode' end
  local share = 1
  if v.mode == 'saturated' then share = p.saturated_share or 1 end
  if share <= 0 then return 'mode' end
  -- Over by the time it is due, if not by now: it could only ever expire.
  if o.dd and o.dd <= (o.d or 0) then return 'deadline', o.d or 0, o.dd end
  share = share * (room or 1)
  if p.max_age_s then
    local oldest = oldest_of(q, v)
    if oldest and now - oldest > p.max_age_s * 1000 then return 'age', now - oldest, p.max_age_s * 1000 end
  end
  local count = v.depth + v.delayed + 1
  if v.max_count and count > v.max_count * share then
    return count <= v.open_count * share and 'downstream' or 'count', count, v.max_count * share, 'count'
  end
  if p.max_bytes and v.bytes + o.b > p.max_bytes * share then return 'bytes', v.bytes + o.b, p.max_bytes * share end
  -- An empty queue takes one job whatever it costs, as far as the policy's own bound allows.
  local max_cost = v.max_cost
  if v.cost_ms == 0 then max_cost = p.max_cost_ms end
  if max_cost and v.cost_ms + cost > max_cost * share then
    return v.cost_ms + cost <= v.open_cost * share and 'downstream' or 'cost', v.cost_ms + cost, max_cost * share, 'cost'
  end
  if calls_its_own(o, v) then
    local s = standing_for(q, o.ds)
    local part = share * s.part
    if s.part < 1 and s.jobs > 0 then
      local jobs, work = s.jobs + 1, (s.jobs + 1) * cost -- the others' cost is taken to be this one's
      if v.max_count and jobs > math.max(1, v.max_count * part) then return 'downstream', jobs, v.max_count * part, 'count' end
      if max_cost and work > math.max(cost, max_cost * part) then return 'downstream', work, max_cost * part, 'cost' end
    end
  end
  local drained = o.dd and redis.call('HGET', root .. 'model:' .. q, 'seconds_to_drain')
  if drained and tonumber(drained) * 1000 > o.dd then return 'deadline', tonumber(drained) * 1000, o.dd end
  if has_several_tenants(q, o.n) then
    local part = share * (p.tenant_share or 0.8)
    if part < share then
      local t = tenant_view(q, o.n)
      if v.max_count and t.count + 1 > math.max(1, v.max_count * part) then return 'tenant', t.count + 1, v.max_count * part, 'count' end
      if p.max_bytes and t.bytes + o.b > p.max_bytes * part then return 'tenant', t.bytes + o.b, p.max_bytes * part, 'bytes' end
      if v.max_cost and t.cost + cost > v.max_cost * part then return 'tenant', t.cost + cost, v.max_cost * part, 'cost' end
    end
  end
  return nil
end

-- When to come back, in ms. The k-th client refused needs about k service times more than the first,
-- so each takes the next place in a line of promised returns. The line is as long as twice what
-- draining all that waits would take, at least two seconds; who finds it full begins it anew, so that
-- a crowd is spread over its length and does not return in one moment.
local NO_TIME_HELPS = {size = true, suspended = true, revoked = true, encryption = true, coalescing = true}
local function retry_after(q, v, reason)
  if reason == 'mode' or reason == 'unavailable' then
    if v.till then return math.max(1000, v.till - now) end
    return reason == 'mode' and 10000 or 5000
  end
  if NO_TIME_HELPS[reason] then return 60000 end
  local rate = tonumber(redis.call('HGET', root .. 'model:' .. q, 'service_rate_per_s') or 0)
  local step, base = 50, 2000
  if rate > 0 then step = 1000 / rate; base = math.min(step, 150000) end
  local longest = math.min(300000, math.max(2000, 2 * base, 2 * step * (v.depth + 1)))
  local totals = totals_of(q)
  local at = math.max(now + base, (totals.now.next_return or 0) + step)
  if at > now + longest then at = now + base end
  set_number(totals, 'next_return', math.floor(at + 0.5))
  return at - now
end
