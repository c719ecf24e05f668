-- base: names, clock, counters and records that every script shares. Included, never run alone.
--
-- KEYS[1] is the root of one gate, "sluicegate:{GATE}:". All other keys are made from it, so they
-- share its hash tag and a cluster holds them in one slot. Key by key: workers/store/keys.py.
local root = KEYS[1]
local ops_key, payloads_key = root .. 'ops', root .. 'payloads'
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

-- @layer
-- A sheet is the numbers of a queue, of a tenant in it or of the schedule: one msgpack map in one string. A script
-- reads each once and writes those that changed at its end, by flush(): fifteen numbers cost one command each way.
local sheets, sheet_of_queue, sheet_of_tenant = {}, {}, {}
local function read_sheet(key)
  local s = sheets[key]
  if not s then
    local packed = redis.call('GET', key)
    s = {now = packed and cmsgpack.unpack(packed) or {}, changed = false}
    sheets[key] = s
  end
  return s
end
local function totals_of(q)
  local s = sheet_of_queue[q]
  if not s then
    s = read_sheet(totals_key(q))
    sheet_of_queue[q] = s
  end
  return s
end
local function tenant_of(q, n)
  local own = sheet_of_tenant[q]
  if not own then
    own = {}
    sheet_of_tenant[q] = own
  end
  local s = own[n]
  if not s then
    s = read_sheet(tenant_key(q, n))
    own[n] = s
  end
  return s
end
local function set_number(s, field, value)
  s.now[field] = value
  s.changed = true
end
local function add(s, field, by)
  s.now[field] = (s.now[field] or 0) + by
  s.changed = true
end
local function bump(q, n, field, by)
  add(totals_of(q), field, by)
  add(tenant_of(q, n), field, by)
end
local function flush()
  local row = {}
  for key, s in pairs(sheets) do
    if s.changed then
      s.changed = false
      if s.for_ms then redis.call('SET', key, cmsgpack.pack(s.now), 'PX', s.for_ms)
      else
        row[#row + 1] = key
        row[#row + 1] = cmsgpack.pack(s.now)
      end
    end
  end
  if row[1] then redis.call('MSET', unpack(row)) end
end

-- A tenant is known from its first acceptance until a day after its last (sweep.lua). The numbers of one
-- that was only ever refused go by themselves, or names made up by a stranger would fill the memory.
-- `met` is when it was last noted in the list of tenants: once a minute is often enough for that.
local TENANT_MS, NOTED_MS = 86400000, 60000
local function meet(q, n)
  local own = tenant_of(q, n)
  if own.now.met and now - own.now.met < NOTED_MS then return end
  set_number(own, 'met', now)
  if redis.call('ZADD', root .. 'tenants:' .. q, now, n) == 1 then add(totals_of(q), 'tenants', 1) end
end
local function let_stranger_expire(q, n)
  local own = tenant_of(q, n)
  if not own.now.met then own.for_ms = TENANT_MS end
end

-- A record holds its times only where they differ: o (offered) and e (eligible) default to a (accepted).
local function read_record(id)
  local raw = redis.call('HGET', ops_key, id)
  if raw then return cmsgpack.unpack(raw) end
  return nil
end
local function write_record(id, rec) redis.call('HSET', ops_key, id, cmsgpack.pack(rec)) end

-- @layer
-- What scripts obey, read from one hash: policies, modes, costs of tasks, settings. Each field is read once.
local rules_key, rules = root .. 'rules', {}
local function read_rules(fields)
  local row = redis.call('HMGET', rules_key, unpack(fields))
  for i, field in ipairs(fields) do rules[field] = row[i] or false end
end
local function rule(field)
  if rules[field] == nil then read_rules({field}) end
  return rules[field] or nil
end

-- The policy that a queue name stands for: its own, or that of the default queue.
local DEFAULT_QUEUE = 'normal'
local policies = {}
local function policy_of(q)
  if policies[q] == nil then
    local packed = rule('policy|' .. q)
    policies[q] = packed and cmsgpack.unpack(packed) or false
  end
  return policies[q]
end
local function gated(q)
  if policy_of(q) then return q end
  return DEFAULT_QUEUE
end
local function policy_or_default(q) return policy_of(q) or {} end

-- Reads at once what is needed of some queues. `more` are further fields.
local function read_rules_of(queues, more)
  local fields = {'modes', 'barred', unpack(more or {})}
  for _, q in ipairs(queues) do fields[#fields + 1] = 'policy|' .. q end
  read_rules(fields)
end

-- The mode that a queue is under, the stricter of its own and the installation's, and when it ends by itself.
local RANK = {normal = 0, saturated = 1, draining = 2, failed = 3}
local modes
local function mode_in_force(q)
  local packed = not modes and rule('modes')
  modes = modes or packed and cmsgpack.unpack(packed) or {}
  local mode, till = 'normal', nil
  for _, set in ipairs({modes['*'] or {'normal'}, modes[q]}) do
    if not (set[2] and set[2] <= now) and RANK[set[1]] > RANK[mode] then mode, till = set[1], set[2] end
  end
  return mode, till
end

-- @layer
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
    set_number(totals_of(q), 'filled_at', now)
  end
end

-- A job becomes eligible: into its tenant's line, its tenant into the turn and the heads. `newest`: its score is
-- above all others of the queue, so that a line that is not empty has its head and its turn already.
local function put_ready(q, n, id, score, rec, newest)
  note_entry(q, n, id, rec)
  local line = ready_key(q, n)
  redis.call('ZADD', line, score, id)
  if newest and redis.call('ZCARD', line) > 1 then return end
  local tenant = tenant_of(q, n).now
  if tenant.held then return end -- a suspended tenant's line has no turn and no head (authority.lua)
  -- Start-time fair queueing (Goyal, Vin, Cheng 1996): a tenant that comes back starts at the
  -- present virtual time, so idling earns no credit.
  redis.call('ZADD', root .. 'turns:' .. q, 'NX', math.max(tenant.vt or 0, totals_of(q).now.vt or 0), n)
  redis.call('ZADD', root .. 'heads:' .. q, 'LT', score, n)
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

-- The bell wakes an idle worker. It carries nothing: lost, doubled or late, the claim decides. Who finds this
-- much waiting has nobody to wake: a worker claims until it finds nothing, and only then listens. `awaited` is set
-- while one listens beside what waits, since it may not start that (claim.lua).
local LOUD_ENOUGH = 64
local function ring(q)
  local has = totals_of(q).now
  if (has.depth or 0) > LOUD_ENOUGH and has.awaited ~= 1 then return end
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
local function enqueue(q, n, id, rec, due, eligible_score, newest)
  if due and due > now then
    rec.s = 'delayed'; rec.du = due; rec.e = due
    redis.call('ZADD', root .. 'delayed:' .. q, due, id)
    bump(q, n, 'delayed', 1)
  else
    rec.s = 'waiting'; rec.du = nil
    put_ready(q, n, id, eligible_score, rec, newest)
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

-- Where jobs stand that were set aside by what holds them back (parking.lua).
local function park_key(q, key) return root .. 'parked:' .. q .. '|' .. key end
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
