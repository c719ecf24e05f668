-- outcomes: what becomes of an offer that a bound refuses, where the policy declares more than "reject".
-- Included by admit, after its views and bound_passed.

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
