-- life: how a job goes on after it was accepted, from line to line and to its end. Included after base by who moves
-- jobs that are there already; never run alone.
local function leave_deadlines(q, n, id, rec)
  if rec.dd and policy_or_default(q).order == 'edf' then redis.call('ZREM', deadlines_key(q, n), id) end
end

-- After something left a tenant's line: its head and its turn say what is true now.
local function refresh_line(q, n)
  local head = redis.call('ZRANGE', ready_key(q, n), 0, 0, 'WITHSCORES')
  if head[1] then
    redis.call('ZADD', root .. 'heads:' .. q, 'XX', head[2], n) -- of a held line there is none
    return true
  end
  redis.call('ZREM', root .. 'heads:' .. q, n)
  local tag = redis.call('ZSCORE', root .. 'turns:' .. q, n)
  if tag then
    set_number(tenant_of(q, n), 'vt', tonumber(tag))
    redis.call('ZREM', root .. 'turns:' .. q, n)
  end
  return false
end

-- Wakes producers that wait for room, where the policy lets them (on_full = block). As the bell it carries
-- nothing: admit decides, and who waits looks again by itself too. It is forgotten when nobody hears it.
local function tell_room(q, number)
  if policy_or_default(q).on_full ~= 'block' then return end
  local room = root .. 'room:' .. q
  for _ = 1, math.min(number, 16) do redis.call('LPUSH', room, '1') end
  redis.call('LTRIM', room, 0, 63)
  redis.call('PEXPIRE', room, 2000)
end

-- Operations of one ordering key run one at a time in order of acceptance, over retries: the first of
-- them stands in the line, the others are parked here and counted as waiting.
local function order_key(rec) return root .. 'order:' .. rec.q .. '|' .. owned(rec.n, rec.ok) end
-- blocked:Q holds the keys that have parked operations, by the place of the first parked one.
local function index_blocked(rec)
  local second = redis.call('ZRANGE', order_key(rec), 1, 1, 'WITHSCORES')
  if second[1] then redis.call('ZADD', root .. 'blocked:' .. rec.q, second[2], owned(rec.n, rec.ok))
  else redis.call('ZREM', root .. 'blocked:' .. rec.q, owned(rec.n, rec.ok)) end
end
local function enqueue_in_order(id, rec, due, score, newest)
  if rec.ok then
    redis.call('ZADD', order_key(rec), score, id)
    -- By number and not by place: one that took over an older place must still wait for who is on.
    if redis.call('ZCARD', order_key(rec)) > 1 then
      rec.s = 'blocked'; rec.du = due
      bump(rec.q, rec.n, 'depth', 1)
      bump(rec.q, rec.n, 'cost_ms', rec.c)
      bump(rec.q, rec.n, 'bytes', rec.b)
      index_blocked(rec)
      return
    end
  end
  enqueue(rec.q, rec.n, id, rec, due, score, newest)
end
local function let_next_pass(id, rec)
  local key = order_key(rec)
  redis.call('ZREM', key, id)
  for _ = 1, 10 do
    local after = redis.call('ZRANGE', key, 0, 0)[1]
    index_blocked(rec)
    if not after then return end
    local waiting = read_record(after)
    if waiting then
      if waiting.s == 'blocked' then
        bump(waiting.q, waiting.n, 'depth', -1)
        bump(waiting.q, waiting.n, 'cost_ms', -waiting.c)
        bump(waiting.q, waiting.n, 'bytes', -waiting.b)
        local due = waiting.du
        if due and due <= now then waiting.e = due end
        enqueue(waiting.q, waiting.n, after, waiting, due, to_score(waiting.e or waiting.a))
        write_record(after, waiting)
      end
      return
    end
    -- A parked one whose record was deleted from under the gate; what it cost is not known any more.
    redis.call('ZREM', key, after)
    bump(rec.q, rec.n, 'depth', -1)
    bump(rec.q, rec.n, 'bytes', -redis.call('HSTRLEN', payloads_key, after))
    bump(rec.q, rec.n, 'lost', 1)
    redis.call('HDEL', payloads_key, after)
  end
end

-- The spill: accepted jobs that stand outside the queue's bounds until there is room (includes/spill.lua).
local function spill_key(q, n) return root .. 'spill:' .. q .. '|' .. n end
local function leave_spill(id, q, n, bytes)
  redis.call('ZREM', root .. 'spill:' .. q, id)
  redis.call('ZREM', spill_key(q, n), id)
  if redis.call('EXISTS', spill_key(q, n)) == 0 then redis.call('ZREM', root .. 'spill:turns:' .. q, n) end
  bump(q, n, 'delayed', -1)
  bump(q, n, 'spilled', -1)
  bump(q, n, 'spilled_bytes', -bytes)
end

local function leave_park(id, rec)
  local q, key = rec.q, rec.pk
  rec.pk = nil
  redis.call('ZREM', park_key(q, key), id)
  local head = redis.call('ZRANGE', park_key(q, key), 0, 0, 'WITHSCORES')
  if head[1] then redis.call('ZADD', root .. 'parks:' .. q, head[2], key)
  else redis.call('ZREM', root .. 'parks:' .. q, key) end
  if rec.n then bump(q, rec.n, 'parked', -1) else add(totals_of(q), 'parked', -1) end
end

-- Takes a pending operation out of wherever it waits. False where it does not wait (any more).
local function withdraw(id, rec)
  local q, n = rec.q, rec.n
  if rec.s == 'spilled' then
    leave_spill(id, q, n, rec.b)
    return true
  elseif rec.s == 'waiting' then
    redis.call('ZREM', ready_key(q, n), id)
    leave_deadlines(q, n, id, rec)
    refresh_line(q, n)
  elseif rec.s == 'delayed' then
    redis.call('ZREM', root .. 'delayed:' .. q, id)
  elseif rec.s == 'parked' then
    leave_park(id, rec)
  elseif rec.s ~= 'blocked' then
    return false
  end
  if rec.s == 'delayed' then bump(q, n, 'delayed', -1)
  else bump(q, n, 'depth', -1); bump(q, n, 'cost_ms', -rec.c) end
  bump(q, n, 'bytes', -rec.b)
  return true
end

-- @layer
-- An id whose record was deleted from under the gate leaves the gauge that counted it. Whose it was is not known.
local function forget_unknown(q, id, gauge)
  local totals = totals_of(q)
  add(totals, 'bytes', -redis.call('HSTRLEN', payloads_key, id))
  add(totals, gauge, -1)
  add(totals, 'lost', 1)
  redis.call('HDEL', payloads_key, id)
end

-- Moves due jobs to ready; at most `most`. Returns how many moved.
local function promote(q, most)
  local due = redis.call('ZRANGEBYSCORE', root .. 'delayed:' .. q, '-inf', now, 'WITHSCORES', 'LIMIT', 0, most)
  for i = 1, #due, 2 do
    local id, at = due[i], tonumber(due[i + 1])
    redis.call('ZREM', root .. 'delayed:' .. q, id)
    local rec = read_record(id)
    if rec then
      rec.s = 'waiting'; rec.du = nil; rec.e = at
      put_ready(q, rec.n, id, to_score(at), rec)
      write_record(id, rec)
      bump(q, rec.n, 'delayed', -1)
      bump(q, rec.n, 'depth', 1)
      bump(q, rec.n, 'cost_ms', rec.c)
      ring(q)
    else
      forget_unknown(q, id, 'delayed')
    end
  end
  return #due / 2
end

-- Log-spaced histogram, 7 % a bin (workers/store/bins.py), in slots of 10 s that expire by themselves.
local LOG_BIN = math.log(1.07)
local function observe(name, q, ms)
  if ms < 0 then ms = 0 end
  local key = root .. name .. ':' .. q .. ':' .. string.format('%d', math.floor(now / 10000))
  if redis.call('HINCRBY', key, math.floor(math.log(ms + 1) / LOG_BIN), 1) == 1 then
    redis.call('PEXPIRE', key, 80000)
  end
end

-- @layer
-- Retention of settled records: an hour unless the settings say otherwise, and at most 100,000. One in
-- sixteen that ends removes up to 40, the monitor's sweep the rest.
local RETENTION_S, RETENTION_COUNT = 3600, 100000
local function forget_settled(most)
  local index = root .. 'settled'
  local kept_s = tonumber(rule('retention_s')) or RETENTION_S
  local old = redis.call('ZRANGEBYSCORE', index, '-inf', now - kept_s * 1000, 'LIMIT', 0, most)
  if #old == 0 then
    local over = redis.call('ZCARD', index) - RETENTION_COUNT
    if over > 0 then old = redis.call('ZRANGE', index, 0, math.min(over, most) - 1) end
  end
  if #old > 0 then
    redis.call('ZREM', index, unpack(old))
    redis.call('HDEL', ops_key, unpack(old))
  end
  return #old
end

-- Tombstones outlive the record: an id that was cancelled never comes back within a day.
local TOMBSTONE_MS = 86400000
local function bury(id) redis.call('ZADD', root .. 'tombstones', now + TOMBSTONE_MS, id) end

-- What a deletion leaves of a record: enough for the sums, and for whoever asks what became of it.
local function strip(rec) rec.er = nil; rec.rr = nil; rec.tg = nil; rec.tr = nil end

-- Ends an operation for good. `rec` has left every set already. Status is one of states.TERMINAL.
local function finish(id, rec, status, at)
  rec.s = status
  rec.cm = at or now
  rec.rp = now
  rec.nx = nil
  bump(rec.q, rec.n, status, 1)
  if rec.ob and status ~= 'cancelled' and status ~= 'superseded' then
    bump(rec.q, rec.n, 'promised', 1)
    if status == 'succeeded' and rec.cm <= rec.ob then bump(rec.q, rec.n, 'in_objective', 1) end
  end
  if rec.qd then redis.call('HDEL', payloads_key, id .. ':next')
  else redis.call('HDEL', payloads_key, id, id .. ':next') end
  if status == 'cancelled' or status == 'superseded' then bury(id) end
  if rec.xd then strip(rec) end
  write_record(id, rec)
  redis.call('ZADD', root .. 'settled', now, id)
  if rec.ok then let_next_pass(id, rec) end
  if rec.xd and rec.ok then rec.ok = nil; write_record(id, rec) end
  if string.byte(id, -1) % 16 == 0 then forget_settled(40) end
end

-- Ends an operation as failed and holds it in quarantine until the recorder has copied it.
local function quarantine(id, rec, reason, at)
  if rec.xd then return finish(id, rec, 'failed', at) end -- deleted while it ran: nothing of it is held
  rec.qd = reason
  bump(rec.q, rec.n, 'quarantined', 1)
  redis.call('ZADD', root .. 'spool', now, id)
  redis.call('HSET', root .. 'quarantined', id, cmsgpack.pack(rec))
  finish(id, rec, 'failed', at)
end

-- Accepted stays accepted: what comes back to a queue that is full by now is counted, not refused.
local function note_over_bound(rec)
  local p, q = policy_or_default(rec.q), rec.q
  if not (p.max_count or p.max_bytes or p.max_cost_ms) then return end
  local has = totals_of(q).now
  if (p.max_count and (has.depth or 0) + (has.delayed or 0) - (has.spilled or 0) > p.max_count)
    or (p.max_bytes and (has.bytes or 0) > p.max_bytes) or (p.max_cost_ms and (has.cost_ms or 0) > p.max_cost_ms) then
    bump(q, rec.n, 'over_bound', 1)
  end
end

-- Back to its line after a delivery that came to nothing: class, tenant and age are kept.
-- A successor that the job published before it was lost takes its place (a retry in the making).
local function give_back(id, rec)
  rec.w = nil; rec.ep = nil; rec.st = nil
  local next_up = rec.nx
  if next_up then
    rec.nx = nil
    rec.r = next_up.r
    rec.t = next_up.t
    rec.b = next_up.b
    rec.ds = next_up.ds or rec.ds
    rec.dl = 0
    redis.call('HSET', payloads_key, id, redis.call('HGET', payloads_key, id .. ':next'))
    redis.call('HDEL', payloads_key, id .. ':next')
    rec.e = math.max(next_up.du, now)
    enqueue(rec.q, rec.n, id, rec, next_up.du, to_score(rec.e))
  else
    enqueue(rec.q, rec.n, id, rec, nil, to_score(rec.e or rec.a))
  end
  note_over_bound(rec)
  write_record(id, rec)
end

-- A holder died or let its lease run out.
local function lose(id, rec)
  rec.lc = (rec.lc or 0) + 1
  bump(rec.q, rec.n, 'redelivered', 1)
  ring_for_room(rec.q)
  if rec.cr then
    finish(id, rec, 'cancelled')
  elseif not rec.nx and (rec.dl or 0) >= (policy_or_default(rec.q).max_deliveries or 3) then
    rec.er = {type = 'WorkerLost', message = 'its worker was lost ' .. rec.lc .. ' times; it was delivered '
      .. (rec.dl or 0) .. ' times', traceback = ''}
    quarantine(id, rec, 'worker_lost')
  else
    give_back(id, rec)
  end
end
-- @layer
