-- spill: takes accepted jobs out of the spill once their queue has room. Included after base.
--
-- spill:Q holds them all by acceptance, spill:Q|N those of a tenant, spill:turns:Q whose turn it is. Each
-- is a record and its message, without a line, a turn or a head of its own.
-- Begins under the low mark of every bound and goes on to the high mark; at most `most`. In any mode: what
-- was accepted stays accepted. Returns how many it took or ended.
local function take_in(q, most)
  local p, done = policy_or_default(q), 0
  local has = totals_of(q).now
  local spilled = has.spilled or 0
  if spilled == 0 then return 0 end
  local count, bytes, cost = (has.depth or 0) + (has.delayed or 0) - spilled, has.bytes or 0, has.cost_ms or 0
  local last = has.last_score or 0
  if p.spill_max_age_s then
    local edge = string.format('%.0f', to_score(now - p.spill_max_age_s * 1000))
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', root .. 'spill:' .. q, '-inf', edge, 'LIMIT', 0, most)) do
      local rec = read_record(id)
      if rec and withdraw(id, rec) then
        finish(id, rec, 'expired')
        done = done + 1
      end
    end
  end
  local most_cost = p.max_cost_ms
  if p.max_wait_s then
    local rate = tonumber(redis.call('HGET', root .. 'model:' .. q, 'work_rate') or 0)
    if rate > 0 then most_cost = math.min(most_cost or math.huge, p.max_wait_s * rate) end
  end
  local function within(mark)
    return not (p.max_count and count > p.max_count * mark) and not (p.max_bytes and bytes > p.max_bytes * mark)
      and not (most_cost and cost > most_cost * mark)
  end
  if not within(p.low_mark or 0.5) then return done end
  if p.max_age_s then
    local head = redis.call('ZRANGE', root .. 'heads:' .. q, 0, 0, 'WITHSCORES')
    if head[2] and now - to_ms(tonumber(head[2])) > p.max_age_s * 1000 * (p.low_mark or 0.5) then return done end
  end
  local turns, latest = root .. 'spill:turns:' .. q, nil
  while done < most do
    local turn = redis.call('ZRANGE', turns, 0, 0, 'WITHSCORES')
    local n = turn[1]
    if not n then break end
    local id = redis.call('ZRANGE', spill_key(q, n), 0, 0)[1]
    local rec = id and read_record(id)
    if not rec then
      -- Its record was deleted from under the gate.
      local size = id and redis.call('HSTRLEN', payloads_key, id) or 0
      if id then
        leave_spill(id, q, n, size)
        bump(q, n, 'lost', 1)
        redis.call('HDEL', payloads_key, id)
      else redis.call('ZREM', turns, n) end
    else
      local late = rec.dd and rec.dd <= now
      if not late then
        count = count + 1; bytes = bytes + rec.b; cost = cost + rec.c
        if count > 1 and not within(p.high_mark or 0.9) then break end
      end
      leave_spill(id, q, n, rec.b)
      latest = math.max(latest or 0, tonumber(turn[2]) + 1)
      if redis.call('EXISTS', spill_key(q, n)) == 1 then redis.call('ZADD', turns, latest, n) end
      if late then
        finish(id, rec, 'expired')
      else
        -- Eligible from now on: the spill shows how long it stood there, the queue how long it waits in it.
        rec.e = now
        last = math.max(last + 1, to_score(now))
        enqueue_in_order(id, rec, rec.du, last)
        write_record(id, rec)
      end
    end
    done = done + 1
  end
  if latest then set_number(totals_of(q), 'last_score', last) end
  return done
end
