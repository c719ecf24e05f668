-- admit: accepts or refuses offers; what is accepted is stored, indexed and counted in this one step.
-- KEYS  1 root of the gate
-- ARGV  1 not_after_ms: refuse everything once Redis's clock has passed it ("" = no limit)
--       2 "1": all or none
--       3 "list key" of an inlet whose tail must equal ARGV[4]; that tail is taken off ("" = none)
--       4 the raw tail
--       5.. pairs: offer (msgpack map, see workers/store/offers.py), payload
-- Reply msgpack {now, verdicts}; a verdict is {id, "accepted"|"duplicate"|"refused"|"gone", ...}; where rate limits
--       apply or its producer asks for credits, its last part is a map, r: what is left of each limit (rates.lua
--       tell_rates), c: the grant {credits, for ms, live producers, closed for ms, reason, limits counted locally},
--       w: its ticket for the waiting room (tickets.lua tell_ticket)
-- Cost  O(log n) an offer; about 10 commands for one that is plain, 13 for another first, 7 for each further one.
-- @include base
-- @include bounds
local not_after = tonumber(ARGV[1])
local whole = ARGV[2] == '1'
if ARGV[3] ~= '' and redis.call('LINDEX', ARGV[3], -1) ~= ARGV[4] then
  return cmsgpack.pack({now, {{'', 'gone'}}})
end

local offers, queues, more = {}, {}, {}
for i = 5, #ARGV, 2 do
  local o = cmsgpack.unpack(ARGV[i])
  o.payload = ARGV[i + 1]
  o.b = #o.payload
  local known = #offers > 0 and offers[#offers]
  offers[#offers + 1] = o
  if not (known and known.q == o.q and known.t == o.t) and #offers <= 100 then
    queues[#queues + 1] = o.q
    if not o.c then more[#more + 1] = 'cost|' .. o.t end
  end
end
read_rules_of(queues, more)

-- What a record says of an accepted offer from the first; `promise` is its queue's, in s.
local function new_record(o, q, cost, promise)
  local rec = {t = o.t, q = q, n = o.n, b = o.b, c = cost, a = now, k = o.k, tg = o.tg, tr = o.tr}
  if (o.oa or 0) > 0 then rec.o = now - o.oa end
  if o.dd then rec.dd = now + o.dd end
  if promise then rec.ob = now + (o.d or 0) + promise * 1000 end
  return rec
end
-- The newest of a queue stands behind all others, those of the same millisecond too.
local function next_score(q)
  local totals = totals_of(q)
  local score = math.max((totals.now.last_score or 0) + 1, to_score(now))
  set_number(totals, 'last_score', score)
  return score
end
local function count_accepted(q, n)
  bump(q, n, 'offered', 1)
  bump(q, n, 'accepted', 1)
  meet(q, n)
end

-- The plain way, which most offers go: one new job that says nothing of order, keys or time, to a queue in normal
-- mode that has room for it and nothing but bounds to ask. It is accepted here for two thirds of what the general
-- way costs, or nothing has happened and that one decides. A fact or a rule that is not named here is not plain.
local PLAIN = {i = 1, t = 1, q = 1, n = 1, f = 1, c = 1, k = 1, tg = 1, tr = 1, oa = 1, dd = 1, b = 1, payload = 1}
local function admit_plainly(o)
  for fact in pairs(o) do
    if not PLAIN[fact] then return nil end
  end
  if not o.f or (not_after and now > not_after) then return nil end
  local id, q, n = o.i, gated(o.q), o.n
  local p = policy_or_default(q)
  if p.rate_limits or p.waiting_room_max or p.payload_class or p.on_full == 'spill' or p.on_full == 'sample'
    or rule('barred') or mode_in_force(q) ~= 'normal' then return nil end
  read_sheets({totals_key(q), tenant_key(q, n)})
  local cost = cost_of(o)
  if bound_passed(o, q, view(q), cost) then return nil end
  local rec = new_record(o, q, cost, p.objective_s)
  rec.s = 'waiting'
  -- Sent twice, when the first answer was lost: the general way knows what to say.
  if redis.call('HSETNX', ops_key, id, cmsgpack.pack(rec)) == 0 then return nil end
  redis.call('HSET', payloads_key, id, o.payload)
  count_accepted(q, n)
  enqueue(q, n, id, rec, nil, next_score(q), true)
  flush()
  return cmsgpack.pack({now, {{id, 'accepted', q, 'waiting'}}})
end
local plain = #offers == 1 and ARGV[3] == '' and admit_plainly(offers[1])
if plain then return plain end

-- @include life
-- @include rates
-- @include credits
-- @include tickets
-- @include privacy
-- @include authority
-- @include outcomes
-- The waiting room: nobody goes past those who wait. Also gives the ticket of this offer, old or new.
local function seat_for(o, q, v, reason, value, bound)
  local own = not whole and o.tk or nil
  if reason and not SHEDS[reason] then return reason, value, bound, place_of(q, o.n, own) and own end
  local free = call_tickets(q, v.depth, v.delayed)
  local where = place_of(q, o.n, own)
  if where == 'called' then return reason, value, bound, own end
  local behind = redis.call('EXISTS', line_key(q)) == 1 and (whole or (tenant_of(q, o.n).now.tickets or 0) > 0)
  if not where and not reason and free >= 1 and not behind then return nil end
  local ticket = where and own or (not whole and draw_ticket(q, o.n, o.i)) or nil
  return 'waiting_room', totals_of(q).now.tickets or 0, v.policy.waiting_room_max, ticket
end

local verdicts, accepted, fresh, keyed = {}, {}, {}, {}
local refusal
for _, o in ipairs(offers) do
  o.q = gated(o.q)
  local q, v = o.q, view(o.q)
  local asked = q
  local verdict
  local rec = fresh[o.i] or read_record(o.i)
  if rec and rec.ig and rec.s == 'succeeded' and redis.call('HEXISTS', root .. 'links', o.i) == 1 then rec = nil end
  if rec then
    if rec.s == 'leased' and (o.r or 0) > (rec.r or 0) and not rec.xd then
      verdict = {o.i, 'retry', q, o, rec}
      accepted[#accepted + 1] = verdict
    else
      verdict = {o.i, 'duplicate', q, rec.s}
      verdict.fresh = fresh[o.i] and true
    end
  elseif not o.f and redis.call('ZSCORE', root .. 'tombstones', o.i) then
    bump(q, o.n, 'tombstone_hits', 1)
    verdict = {o.i, 'duplicate', q, 'cancelled'}
  elseif o.ik then
    local slot = owned(o.n, o.ik)
    local known = keyed[slot] or redis.call('HMGET', root .. 'idempotency:' .. slot, 'id', 'hash')
    if known[1] then
      if known[2] == (o.ih or '') then
        local first = read_record(known[1])
        verdict = {known[1], 'duplicate', q, first and first.s or 'pending'}
      else verdict = {o.i, 'conflict', q, known[1]} end
      verdict.fresh = keyed[slot] and true
    end
  end
  if not verdict then
    local cost = cost_of(o)
    local parent = not o.f and redis.call('HGET', root .. 'links', o.i)
    -- A task that was replaced goes on under new ids while its lease lives. Any other retry of an id that the
    -- gate does not know is an offer like all.
    local origin = o.pa and read_record(o.pa)
    local exempt = parent or (origin and origin.s == 'leased') or false
    local spilled
    local reason, value, bound, kind, limited, wait, ticket
    local old_id, old = superseded_by(o, q, v.policy)
    if not_after and now > not_after then
      reason, exempt = 'unavailable', false
    else
      if old then
        replaced[old_id] = true
        take_off(v, old, 1)
      end
      if v.barred and not exempt then reason = barred_by(o.n, o.k) end
      if not reason and not exempt and is_bare_secret(o, v.policy) then reason = 'encryption' end
      if not reason then reason, value, bound, kind = bound_passed(o, q, v, cost) end
      if v.policy.rate_limits and not exempt and (not reason or SHEDS[reason]) then
        limited, wait = rate_passed(o, q, v.policy)
        if limited then reason, value, bound = 'rate', false, limited.limit end
      end
      if not exempt and not whole and v.policy.on_full == 'drop_oldest' then
        for _ = 1, 10 do
          if not SHEDS[reason or ''] or not shed_oldest(o, q, v, reason) then break end
          reason, value, bound, kind = bound_passed(o, q, v, cost)
        end
      end
      if not reason and sampled_out(o, v) then reason, value, bound = 'count', v.depth + v.delayed, v.policy.max_count end
      if o.ck and v.policy.may_coalesce == 0 then
        -- Its operations add up: one taken for a newer state of another would be lost work.
        reason, value, bound, exempt = 'coalescing', nil, nil, false
      end
      if o.sq then
        local last = tonumber(redis.call('GET', sequence_key(o, q)) or nil)
        if last and o.sq <= last then reason, value, bound, exempt = 'duplicate', o.sq, last, false end
      end
      if not exempt and v.policy.on_full == 'spill' then
        -- Behind those of its tenant that are spilled already, or it would overtake them.
        local behind = not reason and v.spilled > 0 and tenant_view(q, o.n).spilled > 0
        if (behind or SHEDS[reason or '']) then
          if has_spill_room(o, q, v) then spilled, reason = true, nil
          elseif behind then reason, value, bound = 'count', v.spilled + 1, v.policy.spill_max_count or v.spilled end
        end
      elseif not exempt and v.policy.on_full == 'degrade' and SHEDS[reason or ''] then
        local to, less = degraded(o, q, v)
        if to then
          o.pc = o.pc or v.policy.payload_class or 'internal' -- its arguments are what they were
          o.df, o.t, o.q = {t = o.t, q = q, r = reason}, v.policy.degrade_to, to
          reason, cost, q, v = nil, less, to, view(to)
        end
      end
      if v.policy.waiting_room_max and not exempt and not (old and not reason) then
        reason, value, bound, ticket = seat_for(o, q, v, reason, value, bound)
      end
      if old and reason and not exempt then
        replaced[old_id] = nil
        take_off(v, old, -1)
      end
    end
    if reason and not exempt then
      verdict = {o.i, 'refused', q, reason, 0, value or false, bound or false, v.policy.on_full or 'reject', v.policy.block_s or 0}
      verdict.limited, verdict.wait, verdict.rated, verdict.asked = limited, wait, v.policy.rate_limits and o, asked
      if reason == 'tenant' or reason == 'downstream' then verdict[10] = kind end
      verdict.ticket = ticket
      refusal = refusal or verdict
    else
      verdict = {o.i, 'accepted', q, o, cost, parent or false, reason and true or false}
      verdict.old = old_id
      verdict.spilled = spilled
      if ticket then drop_ticket(q, ticket, 'tickets_admitted') end
      if not exempt then
        if v.policy.rate_limits then charge_rates(o, q, v.policy) end
        if asked ~= q and view(asked).policy.rate_limits then charge_rates(o, asked, view(asked).policy) end
        if view(asked).policy.rate_limits then verdict.rated = o; verdict.asked = asked end
      end
      accepted[#accepted + 1] = verdict
      fresh[o.i] = {s = 'waiting', r = o.r}
      if o.ik then keyed[owned(o.n, o.ik)] = {o.i, o.ih or ''} end
      local t = tenant_view(q, o.n)
      if spilled then
        v.spilled = v.spilled + 1; v.spilled_bytes = v.spilled_bytes + o.b
        t.spilled = t.spilled + 1; t.spilled_bytes = t.spilled_bytes + o.b
      else
        if (o.d or 0) > 0 then v.delayed = v.delayed + 1 else v.depth = v.depth + 1; v.cost_ms = v.cost_ms + cost end
        v.bytes = v.bytes + o.b
        t.count = t.count + 1; t.bytes = t.bytes + o.b
        if (o.d or 0) <= 0 then t.cost = t.cost + cost end -- what is delayed does not wait yet
      end
    end
  end
  verdict.n = o.n
  if o.pr then verdict.asks = o end
  verdicts[#verdicts + 1] = verdict
end

if whole and refusal then
  forgive_rates(refusal, verdicts)
  for i, verdict in ipairs(verdicts) do
    if verdict[2] == 'accepted' or verdict[2] == 'retry' or verdict.fresh then
      local o = verdict[2] == 'accepted' and verdict[4]
      local q = o and o.df and o.df.q or verdict[3]
      verdicts[i] = {verdict[1], 'refused', q, refusal[4], 0, refusal[6], refusal[7], 'reject', 0, refusal[10],
        n = verdict.n,
        limited = refusal.limited, wait = refusal.wait, asks = verdict.asks}
    end
  end
  accepted = {}
end

local LINK_MS = 86400000
for _, verdict in ipairs(accepted) do
  local id, q, o = verdict[1], verdict[3], verdict[4]
  -- What was accepted before must go on in a full Redis too: a removal first lets the rest pass.
  if verdict[2] == 'retry' or verdict[6] then redis.call('DEL', root .. 'nothing') end
  if verdict[2] == 'retry' then
    local rec = verdict[5]
    redis.call('HSET', payloads_key, id .. ':next', o.payload)
    rec.nx = {r = o.r, b = o.b, du = now + (o.d or 0), t = o.t, ds = o.ds}
    write_record(id, rec)
  else
    local n = o.n
    local rec = new_record(o, q, verdict[5], view(q).policy.objective_s)
    if (o.r or 0) > 0 then rec.r = o.r end
    if o.df then
      rec.df = o.df
      bump(o.df.q, n, 'degraded', 1)
    end
    rec.ro = o.ro; rec.ru = o.ru; rec.ok = o.ok; rec.pc = o.pc; rec.ds = o.ds
    count_accepted(q, n)
    if o.ro then bump(q, n, 'replayed', 1) end
    if verdict[7] then bump(q, n, 'over_bound', 1) end
    -- Accepted work of a suspended tenant comes to a queue in which it was not known.
    if view(q).barred and barred_by(n) then hold_line(q, n) end
    local cancelled = false
    if verdict[6] then
      -- A later link of an admitted canvas. Where the link before it was cancelled, it ends here.
      redis.call('HDEL', root .. 'links', id)
      redis.call('ZREM', root .. 'links:until', id)
      redis.call('ZREM', root .. 'settled', id) -- a task that was replaced ended under this id before
      local parent = read_record(verdict[6])
      inherit(rec, parent)
      cancelled = redis.call('ZSCORE', root .. 'tombstones', verdict[6]) or (parent and (parent.cr or parent.s == 'cancelled'))
    end
    rec.pc = class_of(rec.pc, policy_or_default(q))
    if cancelled then
      finish(id, rec, 'cancelled')
    else
      redis.call('HSET', payloads_key, id, o.payload)
      local score, newest = next_score(q), true
      local old = verdict.old and read_record(verdict.old)
      local place = old and old.s == 'spilled' and redis.call('ZSCORE', root .. 'spill:' .. q, verdict.old)
      if old and withdraw(verdict.old, old) then
        -- The newer state takes the place of the older one, so that a key that never rests still gets its turn.
        if old.s == 'waiting' or old.s == 'parked' then
          rec.e = old.e or old.a
          score, newest = to_score(rec.e), false
        end
        old.sb = id
        finish(verdict.old, old, 'superseded')
      end
      local due = (o.d or 0) > 0 and now + o.d or nil
      if verdict.spilled then spill(id, rec, due, place or score)
      else enqueue_in_order(id, rec, due, score, newest) end
      local DAY_MS = 86400000
      if o.ck then redis.call('SET', root .. 'coalesce:' .. q .. '|' .. owned(n, o.ck), id, 'PX', DAY_MS) end
      if o.sq then redis.call('SET', sequence_key(o, q), string.format('%.0f', o.sq), 'PX', DAY_MS) end
      write_record(id, rec)
      if o.l then
        for _, link in ipairs(o.l) do
          redis.call('HSET', root .. 'links', link, id)
          redis.call('ZADD', root .. 'links:until', now + LINK_MS, link)
        end
      end
    end
    if o.ik then
      local key = root .. 'idempotency:' .. owned(n, o.ik)
      redis.call('HSET', key, 'id', id, 'hash', o.ih or '')
      redis.call('PEXPIRE', key, 86400000)
    end
    verdict[4] = rec.s
    verdict.df = o.df
  end
end
local DROPS = {drop_newest = true, sample = true}
for i, verdict in ipairs(verdicts) do
  if verdict[2] == 'refused' then
    local q = verdict[3]
    if SHEDS[verdict[4]] and DROPS[verdict[8]] then
      remember_dropped(verdict[1], cmsgpack.unpack(ARGV[3 + 2 * i]), #ARGV[4 + 2 * i], q, verdict[4])
    end
    bump(q, verdict.n, 'offered', 1)
    bump(q, verdict.n, 'refused', 1)
    bump(q, verdict.n, 'refused:' .. verdict[4], 1)
    local r = verdict.limited
    local told = whole and refusal[5] > 0 and refusal[5]
    verdict[5] = told or (r and rate_retry_after(r, verdict.wait)) or retry_after(q, view(q), verdict[4])
    if whole then refusal[5] = verdict[5] end -- it comes back whole
    if verdict.ticket then
      verdict.told = tell_ticket(q, verdict.ticket)
      verdict[5] = verdict.told[5]
    end
  end
end

-- How many more offers like this one the bounds allow, nil where they are not what decides.
local CLOSED = {count = true, bytes = true, cost = true, age = true, mode = true, unavailable = true}
local function room_for(o, v, verdict)
  local p = v.policy
  if (p.on_full or 'reject') ~= 'reject' then return nil end
  if verdict[2] == 'refused' and CLOSED[verdict[4]] and not whole then return 0, verdict[4], true end
  local share = v.mode == 'saturated' and (p.saturated_share or 1) or 1
  local room, reason = nil, 'count'
  if p.max_count then room = p.max_count * share - v.depth - v.delayed end
  if p.max_bytes then
    local fit = (p.max_bytes * share - v.bytes) / math.max(1, o.b)
    if not room or fit < room then room, reason = fit, 'bytes' end
  end
  return room and math.max(0, room), reason
end
local function answer_ask(o, verdict)
  local q = verdict[3]
  local v = view(q)
  local room, reason, closed = room_for(o, v, verdict)
  local grant = grant_credits(q, o.pr, room, closed)
  if not grant then return nil end
  local closed_ms = 0
  if closed then
    -- Until a place may be free again; never so long that a change of mode or policy goes unseen.
    local rate = tonumber(redis.call('HGET', root .. 'model:' .. q, 'service_rate_per_s') or 0)
    closed_ms = rate > 0 and math.max(10, math.min(1000, math.ceil(1000 / rate))) or 100
  end
  grant[4], grant[5], grant[6] = closed_ms, reason or '', local_limits(q)
  return grant
end
for _, verdict in ipairs(verdicts) do
  if verdict.asks then verdict.grant = answer_ask(verdict.asks, verdict) end
end
for _, verdict in ipairs(verdicts) do
  if verdict[2] == 'refused' then let_stranger_expire(verdict[3], verdict.n) end
  if verdict.df then let_stranger_expire(verdict.df.q, verdict.n) end
end
write_rates()
flush()
-- What was refused stays on its inlet, unless its queue declares to drop it; what is known already is
-- taken off without a second life.
if ARGV[3] ~= '' then
  local first = verdicts[1]
  local stays = first[2] == 'refused' or first[2] == 'conflict'
  if not stays or (SHEDS[first[4]] and DROPS[first[8]]) then redis.call('RPOP', ARGV[3]) end
end
local out = {}
for i, verdict in ipairs(verdicts) do
  local kind = verdict[2]
  local df = verdict.df
  if df then out[i] = {verdict[1], kind, verdict[3], verdict[4], df.t, df.q, df.r}
  elseif kind == 'accepted' then out[i] = {verdict[1], kind, verdict[3], verdict[4]}
  elseif kind == 'retry' then out[i] = {verdict[1], kind, verdict[3], 'leased'}
  else out[i] = {unpack(verdict)} end
  if verdict.rated or verdict.grant or verdict.told then
    local rated = verdict.rated and tell_rates(verdict.rated, verdict.asked, view(verdict.asked).policy)
    out[i][#out[i] + 1] = {r = rated or nil, c = verdict.grant, w = verdict.told}
  end
end
return cmsgpack.pack({now, out})
