-- base: names, clock, counters and records that every script shares. Included, never run alone.
--
-- KEYS[1] is the root of one gate, "sluicegate:{GATE}:". All other keys are made from it, so they
-- share its hash tag and a cluster holds them in one slot. Key by key: workers/store/keys.py.
local root = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- A ready score is 4096 steps a millisecond since 2025-01-01, so that jobs of one millisecond keep
-- their order and the sum stays an exact double until the year 2094.
local BASE_MS, STEPS = 1735689600000, 4096

local function to_score(ms) return (ms - BASE_MS) * STEPS end
local function to_ms(score) return BASE_MS + math.floor(score / STEPS) end

local function totals_key(q) return root .. 'totals:' .. q end
local function tenant_key(q, n) return root .. 'tenant:' .. q .. '|' .. n end
-- A tenant's own name for something. The length keeps "a|b" with "c" apart from "a" with "b|c".
local function owned(n, name) return #n .. '|' .. n .. '|' .. name end
local function ready_key(q, n) return root .. 'ready:' .. q .. '|' .. n end

-- Counters are gathered and written once at the end, by flush().
local bumps = {}
local function bump_key(key, field, by)
  local b = bumps[key]
  if not b then b = {}; bumps[key] = b end
  b[field] = (b[field] or 0) + by
end
local function bump(q, n, field, by)
  bump_key(totals_key(q), field, by or 1)
  bump_key(tenant_key(q, n), field, by or 1)
end
local function flush()
  for key, fields in pairs(bumps) do
    local names, row = {}, {}
    for field, by in pairs(fields) do
      if by ~= 0 then names[#names + 1] = field end
    end
    if #names > 0 then
      local held = redis.call('HMGET', key, unpack(names))
      for i, field in ipairs(names) do
        row[2 * i - 1] = field
        row[2 * i] = (tonumber(held[i]) or 0) + fields[field]
      end
      redis.call('HSET', key, unpack(row))
    end
  end
  bumps = {}
end

-- A tenant is known from its first acceptance until a day after its last (sweep.lua). The counters of one
-- that was only ever refused go by themselves, or names made up by a stranger would fill the memory.
local TENANT_MS = 86400000
local function meet(q, n)
  if redis.call('ZADD', root .. 'tenants:' .. q, now, n) == 1 then redis.call('PERSIST', tenant_key(q, n)) end
end
local function let_stranger_expire(q, n)
  if not redis.call('ZSCORE', root .. 'tenants:' .. q, n) then redis.call('PEXPIRE', tenant_key(q, n), TENANT_MS) end
end

-- A record holds its times only where they differ: o (offered) and e (eligible) default to a (accepted).
local function read_record(id)
  local raw = redis.call('HGET', root .. 'ops', id)
  if raw then return cmsgpack.unpack(raw) end
  return nil
end
local function write_record(id, rec) redis.call('HSET', root .. 'ops', id, cmsgpack.pack(rec)) end

-- The policy that a queue name stands for: its own, or that of the default queue.
local policies = {}
local POLICY_FIELDS = {'version', 'max_count', 'max_bytes', 'max_cost_ms', 'max_age_s', 'on_full', 'order', 'weight',
  'strict_rank', 'reserved_slots', 'max_in_flight', 'age_ceiling_s', 'saturated_share', 'admit_while_draining',
  'tenant_share', 'max_deliveries', 'lease_s', 'sample_rate', 'unknown_task_grace_s', 'quarantine_max_count',
  'max_wait_s', 'quarantine_max_bytes', 'may_coalesce', 'block_s', 'high_mark', 'rate_limits',
  'payload_class', 'low_mark', 'objective_s', 'degrade_to', 'degrade_queue', 'degrade_reserve', 'spill_max_count',
  'spill_max_bytes', 'spill_max_age_s',
  'downstream', 'codel_target_ms', 'codel_interval_ms', 'max_in_flight_per_task'}
local WORDS = {on_full = true, order = true, rate_limits = true, payload_class = true, degrade_to = true,
  degrade_queue = true, downstream = true, max_in_flight_per_task = true}
local function policy_of(q)
  local p = policies[q]
  if p == nil then
    local row = redis.call('HMGET', root .. 'policy:' .. q, unpack(POLICY_FIELDS))
    p = false
    if row[1] then
      p = {}
      for i, field in ipairs(POLICY_FIELDS) do
        if row[i] then p[field] = WORDS[field] and row[i] or tonumber(row[i]) end
      end
      if p.rate_limits then p.rate_limits = cjson.decode(p.rate_limits) end
    end
    if p and p.max_in_flight_per_task then p.max_in_flight_per_task = cjson.decode(p.max_in_flight_per_task) end
    policies[q] = p
  end
  return p
end
local function gated(q)
  if policy_of(q) then return q end
  return 'normal'
end
local function policy_or_default(q) return policy_of(q) or {} end

-- Where a queue serves the earliest deadline first: a tenant's waiting jobs that have a deadline, by it.
local function deadlines_key(q, n) return root .. 'deadlines:' .. q .. '|' .. n end
local function leave_deadlines(q, n, id, rec)
  if rec.dd and policy_or_default(q).order == 'edf' then redis.call('ZREM', deadlines_key(q, n), id) end
end
-- What a queue's own rules must know of a job that enters its line.
local function note_entry(q, n, id, rec)
  local p = policy_or_default(q)
  if rec and rec.dd and p.order == 'edf' then redis.call('ZADD', deadlines_key(q, n), rec.dd, id) end
  -- Since when it has not been empty: controlled delay asks (shedding.lua).
  if p.codel_target_ms and redis.call('EXISTS', root .. 'heads:' .. q) == 0 then
    redis.call('HSET', totals_key(q), 'filled_at', now)
  end
end

-- A job becomes eligible: into its tenant's line, its tenant into the turn and the heads.
local function put_ready(q, n, id, score, rec)
  note_entry(q, n, id, rec)
  redis.call('ZADD', ready_key(q, n), score, id)
  local turns = root .. 'turns:' .. q
  if not redis.call('ZSCORE', turns, n) then
    local row = redis.call('HMGET', tenant_key(q, n), 'vt', 'held')
    if row[2] then return end -- a suspended tenant's line has no turn and no head (authority.lua)
    -- Start-time fair queueing (Goyal, Vin, Cheng 1996): a tenant that comes back starts at the
    -- present virtual time, so idling earns no credit.
    local own = tonumber(row[1] or 0)
    local present = tonumber(redis.call('HGET', totals_key(q), 'vt') or 0)
    redis.call('ZADD', turns, math.max(own, present), n)
  end
  local heads = root .. 'heads:' .. q
  local head = redis.call('ZSCORE', heads, n)
  if not head or tonumber(head) > score then redis.call('ZADD', heads, score, n) end
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
    redis.call('HSET', tenant_key(q, n), 'vt', tag)
    redis.call('ZREM', root .. 'turns:' .. q, n)
  end
  return false
end

-- The bell wakes an idle worker. It carries nothing: lost, doubled or late, the claim decides.
local function ring(q)
  local bell = root .. 'bell:' .. q
  if redis.call('LPUSH', bell, '1') > 32 then redis.call('LTRIM', bell, 0, 15) end
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

-- Puts a record into the ready or the delayed set. `due` nil or past: ready, with its place by `eligible`.
local function enqueue(q, n, id, rec, due, eligible_score)
  if due and due > now then
    rec.s = 'delayed'; rec.du = due; rec.e = due
    redis.call('ZADD', root .. 'delayed:' .. q, due, id)
    bump(q, n, 'delayed', 1)
  else
    rec.s = 'waiting'; rec.du = nil
    put_ready(q, n, id, eligible_score, rec)
    bump(q, n, 'depth', 1)
    bump(q, n, 'cost_ms', rec.c)
    ring(q)
  end
  bump(q, n, 'bytes', rec.b)
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
local function enqueue_in_order(id, rec, due, score)
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
  enqueue(rec.q, rec.n, id, rec, due, score)
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
    bump(rec.q, rec.n, 'bytes', -redis.call('HSTRLEN', root .. 'payloads', after))
    bump(rec.q, rec.n, 'lost', 1)
    redis.call('HDEL', root .. 'payloads', after)
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

-- Where jobs stand that were set aside by what holds them back (parking.lua).
local function park_key(q, key) return root .. 'parked:' .. q .. '|' .. key end
local function leave_park(id, rec)
  local q, key = rec.q, rec.pk
  rec.pk = nil
  redis.call('ZREM', park_key(q, key), id)
  local head = redis.call('ZRANGE', park_key(q, key), 0, 0, 'WITHSCORES')
  if head[1] then redis.call('ZADD', root .. 'parks:' .. q, head[2], key)
  else redis.call('ZREM', root .. 'parks:' .. q, key) end
  if rec.n then bump(q, rec.n, 'parked', -1) else bump_key(totals_key(q), 'parked', -1) end
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
      -- Its record was deleted from under the gate. Whose it was is not known any more.
      bump_key(totals_key(q), 'bytes', -redis.call('HSTRLEN', root .. 'payloads', id))
      bump_key(totals_key(q), 'delayed', -1)
      bump_key(totals_key(q), 'lost', 1)
      redis.call('HDEL', root .. 'payloads', id)
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

-- Retention of settled records: an hour unless the settings say otherwise, and at most 100,000. Each
-- call that settles removes up to 20.
local RETENTION_S, RETENTION_COUNT = 3600, 100000
local function forget_settled(most)
  local index = root .. 'settled'
  local kept_s = tonumber(redis.call('HGET', root .. 'settings', 'retention_s') or RETENTION_S)
  local old = redis.call('ZRANGEBYSCORE', index, '-inf', now - kept_s * 1000, 'LIMIT', 0, most)
  if #old == 0 then
    local over = redis.call('ZCARD', index) - RETENTION_COUNT
    if over > 0 then old = redis.call('ZRANGE', index, 0, math.min(over, most) - 1) end
  end
  if #old > 0 then
    redis.call('ZREM', index, unpack(old))
    redis.call('HDEL', root .. 'ops', unpack(old))
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
  redis.call('HDEL', root .. 'payloads', id .. ':next')
  if not rec.qd then redis.call('HDEL', root .. 'payloads', id) end
  if status == 'cancelled' or status == 'superseded' then bury(id) end
  if rec.xd then strip(rec) end
  write_record(id, rec)
  redis.call('ZADD', root .. 'settled', now, id)
  if rec.ok then let_next_pass(id, rec) end
  if rec.xd and rec.ok then rec.ok = nil; write_record(id, rec) end
  forget_settled(20)
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
  local names = {'depth', 'delayed', 'spilled', 'bytes', 'cost_ms'}
  local row, coming = redis.call('HMGET', totals_key(q), unpack(names)), bumps[totals_key(q)] or {}
  local has = {}
  for i, name in ipairs(names) do has[name] = (tonumber(row[i]) or 0) + (coming[name] or 0) end
  if (p.max_count and has.depth + has.delayed - has.spilled > p.max_count)
    or (p.max_bytes and has.bytes > p.max_bytes) or (p.max_cost_ms and has.cost_ms > p.max_cost_ms) then
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
    redis.call('HSET', root .. 'payloads', id, redis.call('HGET', root .. 'payloads', id .. ':next'))
    redis.call('HDEL', root .. 'payloads', id .. ':next')
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
