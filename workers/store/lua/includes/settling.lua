-- settling: what came of a delivery, recorded. Included after base and downstream by who ends leases.
-- The end of a lease takes away before anything is added, so that a full Redis lets the rest pass.

-- Names of tasks come from producers: so many are known at most, policies and modes among them.
local MOST_RULES = 2000

-- `claims`: this call goes on to claim, and takes what an end makes room for by itself. Else that rings where
-- something was held back from a worker with a free slot.
local function settle(a, claims)
  local id = a.i
  local rec = read_record(id)
  if not rec then return 'unknown' end
  local q, n = rec.q, rec.n
  if rec.s ~= 'leased' or rec.ep ~= a.e then
    redis.call('DEL', root .. 'nothing')
    bump(q, n, 'stale_settles', 1)
    return 'stale'
  end
  redis.call('ZREM', root .. 'leases', id)
  bump(q, n, 'in_flight', -1)
  -- A call that its downstream turned away has made no room there: the next one at once would only be the next.
  local turned_away = rec.kd and (a.dw == 'dropped' or rec.sr == 'dropped')
  if not claims and not turned_away then ring_for_room(q) end
  local outcome = a.o
  let_go(id, rec, a.dw or (outcome == 'succeeded' and 'success') or nil, a.rt)
  if a.st then
    if not rec.st then
      rec.st = a.st
      rec.at = (rec.at or 0) + 1
      bump(q, n, 'started', 1)
    end
    rec.fs = rec.fs or a.st
  end
  if outcome == 'released' then
    rec.dl = math.max(0, (rec.dl or 1) - 1)
    if rec.cr then
      finish(id, rec, 'cancelled')
      return 'settled'
    end
    give_back(id, rec)
    return 'returned'
  end
  if outcome == 'lost' then
    lose(id, rec)
    return rec.s == 'failed' and 'quarantined' or 'returned'
  end
  local ended = now
  if a.rt then
    if rec.st then ended = math.min(now, rec.st + a.rt) end
    observe('services', q, a.rt)
    add(totals_of(q), 'service_ms', math.floor(a.rt))
    add(totals_of(q), 'service_n', 1)
  end
  if rec.cr and (rec.nx or (outcome ~= 'succeeded' and outcome ~= 'failed')) then
    finish(id, rec, 'cancelled', ended)
    return 'settled'
  end
  if rec.nx then
    bump(q, n, 'retried', 1)
    rec.er = a.er
    give_back(id, rec)
    return 'retried'
  end
  if outcome == 'requeued' or outcome == 'retry' then
    if not a.dy and (rec.dl or 0) >= (policy_or_default(q).max_deliveries or 3) then
      -- Reject(requeue=True) of a job that will never be taken would go round for ever.
      rec.er = {type = 'Rejected', message = 'put back by its task at each of ' .. rec.dl .. ' deliveries', traceback = ''}
      quarantine(id, rec, 'rejected', ended)
      return 'quarantined'
    end
    if a.dy then
      rec.w = nil; rec.ep = nil; rec.st = nil
      if a.qr == 'unknown_task' then
        -- During a rolling deploy a newer worker may know it; the time runs from when it was first looked at.
        rec.dl = math.max(0, (rec.dl or 1) - 1)
        rec.uk = rec.uk or now
        rec.er = a.er
        if now - rec.uk >= (policy_or_default(q).unknown_task_grace_s or 30) * 1000 then
          quarantine(id, rec, 'unknown_task', ended)
          return 'quarantined'
        end
      end
      enqueue(q, n, id, rec, now + a.dy, to_score(now))
      note_over_bound(rec)
      write_record(id, rec)
    else
      bump(q, n, 'redelivered', 1)
      give_back(id, rec)
    end
    return 'returned'
  end
  if outcome == 'ignored' then
    -- Ignore after Task.replace(): the id goes on as the last link of what replaced it.
    if rec.dd and rec.dd <= now then
      finish(id, rec, 'expired', ended)
      return 'settled'
    end
    rec.ig = 1
    outcome = 'succeeded'
  end
  if outcome == 'succeeded' then
    rec.rr = a.rr
    rec.er = nil
    if a.rt then
      -- The cost of a task is an exponentially weighted mean of its run times, whole ms.
      local field = 'cost|' .. rec.t
      local known = tonumber(rule(field))
      if known or redis.call('HLEN', rules_key) < MOST_RULES then
        local cost = math.max(1, math.floor((known and (known * 0.9 + a.rt * 0.1) or a.rt) + 0.5))
        if cost ~= known then
          redis.call('HSET', rules_key, field, cost)
          rules[field] = cost
        end
      end
    end
    if not rec.dd or ended <= rec.dd then bump(q, n, 'goodput', 1) end
    finish(id, rec, 'succeeded', ended)
    return 'settled'
  end
  if outcome == 'failed' then
    rec.er = a.er
    quarantine(id, rec, a.qr or 'failed', ended)
    return 'quarantined'
  end
  finish(id, rec, outcome, ended)
  return 'settled'
end

-- Settles ARGV[first] to ARGV[last]; a word for each.
local function settle_all(first, last, claims)
  local words = {}
  for i = first, last do words[#words + 1] = settle(cmsgpack.unpack(ARGV[i]), claims) end
  return words
end
