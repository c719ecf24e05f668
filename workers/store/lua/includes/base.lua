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
local function open_sheet(key, packed)
  local s = {now = packed and cmsgpack.unpack(packed) or {}, changed = false}
  sheets[key] = s
  return s
end
local function read_sheet(key) return sheets[key] or open_sheet(key, redis.call('GET', key)) end
-- Reads some that are not read yet at once.
local function read_sheets(keys)
  for i, packed in ipairs(redis.call('MGET', unpack(keys))) do open_sheet(keys[i], packed) end
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
  if not rule('modes') then return 'normal' end
  modes = modes or cmsgpack.unpack(rule('modes'))
  local mode, till = 'normal', nil
  for _, set in ipairs({modes['*'] or {'normal'}, modes[q]}) do
    if not (set[2] and set[2] <= now) and RANK[set[1]] > RANK[mode] then mode, till = set[1], set[2] end
  end
  return mode, till
end

-- @layer
-- Where a queue serves the earliest deadline first: a tenant's waiting jobs that have a deadline, by it.
local function deadlines_key(q, n) return root .. 'deadlines:' .. q .. '|' .. n end
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

-- The bell wakes an idle worker. It carries nothing: lost, doubled or late, the claim decides. Who finds this
-- much waiting has nobody to wake: a worker claims until it finds nothing, and only then listens. One that listens
-- beside what waits, since it may not start that, is marked by `awaited` (claim.lua): 1 where only an end can change
-- it, 2 where new work of the queue might be started.
local LOUD_ENOUGH = 64
local function ring(q, by_end)
  local has = totals_of(q).now
  if (has.depth or 0) > LOUD_ENOUGH and (has.awaited or 0) < (by_end and 1 or 2) then return end
  local bell = root .. 'bell:' .. q
  if redis.call('LPUSH', bell, '1') > 32 then redis.call('LTRIM', bell, 0, 15) end
end
-- An end has made room.
local function ring_for_room(q)
  if (totals_of(q).now.awaited or 0) > 0 then ring(q, true) end
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

-- Where jobs stand that were set aside by what holds them back (parking.lua).
local function park_key(q, key) return root .. 'parked:' .. q .. '|' .. key end
-- @layer
