-- outcomes: what becomes of an offer that a bound refuses, where the policy declares more than "reject".
-- Included by admit, after bounds.
-- Operations that an offer of this call will replace: nobody else may count on their room.
local replaced = {}

-- drop_oldest: what has waited longest makes room; of the same tenant, where its own share is full, and of
-- what stands aside for the same downstream, where that lets no more work.
local function shed_oldest(o, q, v, reason)
  local n = o.n
  local aside = reason == 'downstream' and calls_its_own(o, v) and standing_for(q, o.ds)
  local of, id
  if aside and aside.jobs > 0 then
    id = redis.call('ZRANGE', park_key(q, 's:' .. o.ds), 0, 0)[1]
  else
    of = reason == 'tenant' and n or redis.call('ZRANGE', root .. 'heads:' .. q, 0, 0)[1]
    id = of and redis.call('ZRANGE', ready_key(q, of), 0, 0)[1]
  end
  if not id and (totals_of(q).now.parked or 0) > 0 then
    -- All that waits was set aside: the oldest of the key that has waited longest.
    local key = redis.call('ZRANGE', root .. 'parks:' .. q, 0, 0)[1]
    id = key and redis.call('ZRANGE', park_key(q, key), 0, 0)[1]
  end
  local rec = id and read_record(id)
  if not rec or replaced[id] or (reason == 'tenant' and rec.n ~= n) or not withdraw(id, rec) then return false end
  of = rec.n
  finish(id, rec, 'shed')
  if aside and aside.jobs > 0 then aside.jobs = aside.jobs - 1 end
  v.depth = v.depth - 1; v.cost_ms = v.cost_ms - rec.c; v.bytes = v.bytes - rec.b
  local t = v.tenants[of]
  if t then t.count = t.count - 1; t.bytes = t.bytes - rec.b; t.cost = t.cost - rec.c end
  return true
end

-- degrade: the queue and the cost at which the cheaper task is accepted in place of the one offered, or nil.
-- In its own queue it may stand beyond each bound by degrade_reserve of it, in another within that one's bounds.
local function degraded(o, q, v)
  local p = v.policy
  if not p.degrade_to then return nil end
  local cost = tonumber(rule('cost|' .. p.degrade_to)) or 100
  if not p.degrade_queue then
    if bound_passed(o, q, v, cost, 1 + (p.degrade_reserve or 0)) then return nil end
    return q, cost
  end
  -- What has a key keeps its order and its newest state within one queue.
  if o.ok or o.ck or o.sq then return nil end
  local to = gated(p.degrade_queue)
  local theirs = view(to).policy
  if bound_passed(o, to, view(to), cost) or (theirs.rate_limits and rate_passed(o, to, theirs)) then return nil end
  return to, cost
end

-- spill: whether the queue's spill, and the tenant's share of it, have room for this one too.
local function has_spill_room(o, q, v)
  local p, t, part = v.policy, tenant_view(q, o.n), 1
  if has_several_tenants(q, o.n) then part = p.tenant_share or 0.8 end
  local most, most_bytes = p.spill_max_count, p.spill_max_bytes
  if most and (v.spilled + 1 > most or t.spilled + 1 > math.max(1, most * part)) then return false end
  if most_bytes and (v.spilled_bytes + o.b > most_bytes or t.spilled_bytes + o.b > most_bytes * part) then return false end
  return (most or most_bytes) and true or false
end
local function spill(id, rec, due, score)
  local q, n = rec.q, rec.n
  rec.s = 'spilled'; rec.du = due
  redis.call('ZADD', root .. 'spill:' .. q, score, id)
  redis.call('ZADD', spill_key(q, n), score, id)
  -- A tenant that comes anew takes its turn after those that are there.
  local turns = root .. 'spill:turns:' .. q
  local newest = redis.call('ZRANGE', turns, -1, -1, 'WITHSCORES')[2]
  redis.call('ZADD', turns, 'NX', newest or 0, n)
  bump(q, n, 'delayed', 1)
  bump(q, n, 'spilled', 1)
  bump(q, n, 'spilled_bytes', rec.b)
end

-- drop_newest and sample: the submitter may ask for what was dropped, while it is among the last so many.
local DROPPED_MOST = 10000
local function remember_dropped(id, o, bytes, q, reason)
  local rec = {t = o.t, q = q, n = o.n, b = bytes, c = o.c or 0, a = now, cm = now, rp = now, s = 'shed', rf = reason}
  redis.call('HSET', root .. 'dropped', id, cmsgpack.pack(rec))
  redis.call('ZADD', root .. 'dropped:at', now, id)
  if redis.call('ZCARD', root .. 'dropped:at') > DROPPED_MOST then
    redis.call('HDEL', root .. 'dropped', redis.call('ZPOPMIN', root .. 'dropped:at')[1])
  end
end

local SHEDS = {count = true, bytes = true, cost = true, age = true, tenant = true, downstream = true}

-- sample: over the high mark a share of the offers is let in, chosen by their ids.
local function sampled_out(o, v)
  local p = v.policy
  if p.on_full ~= 'sample' or not p.max_count then return false end
  if v.depth + v.delayed < p.max_count * (p.high_mark or 0.9) then return false end
  return tonumber(string.sub(redis.sha1hex(o.i), 1, 4), 16) / 65536 >= (p.sample_rate or 0.1)
end

local REPLACEABLE = {waiting = true, delayed = true, spilled = true, parked = true}
-- coalesce: the operation that this one replaces, if one of its key still waits.
local function superseded_by(o, q, p)
  if not o.ck or p.may_coalesce == 0 then return nil end
  local id = redis.call('GET', root .. 'coalesce:' .. q .. '|' .. owned(o.n, o.ck))
  local rec = id and id ~= o.i and not replaced[id] and read_record(id)
  if rec and REPLACEABLE[rec.s] and not rec.ok then return id, rec end
  return nil
end

-- The room that an operation leaves when it is replaced, `by` 1, or takes back, -1.
local function take_off(v, old, by)
  if old.s == 'spilled' then
    v.spilled = v.spilled - by; v.spilled_bytes = v.spilled_bytes - by * old.b
    return
  end
  if old.s == 'delayed' then v.delayed = v.delayed - by
  else v.depth = v.depth - by; v.cost_ms = v.cost_ms - by * old.c end
  v.bytes = v.bytes - by * old.b
end

local function sequence_key(o, q) return root .. 'sequence:' .. q .. '|' .. owned(o.n, o.ok or o.ck or '') end
