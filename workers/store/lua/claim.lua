-- claim: chooses the next jobs by policy and gives each a lease and a fencing epoch.
-- KEYS  1 root of the gate
-- ARGV  1 worker name   2 how many at most   3.. queue names, as the worker consumes them
-- Reply msgpack {now, jobs}; a job is {id, epoch, queue, payload, deliveries, max_deliveries, lease_ms, accepted_at_ms, task,
--       payload class or ""}
-- Cost  O(queues + jobs log n). Expired heads are ended on the way, at most 50 a call.
-- @include base
-- @include authority
-- @include spill
-- @include downstream
-- @include parking
-- @include shedding
-- DEL comes first so that a full Redis lets the rest pass: draining must work when nothing can be added.
redis.call('DEL', root .. 'nothing')
local worker, most = ARGV[1], tonumber(ARGV[2])

local lanes, seen = {}, {}
for i = 3, #ARGV do
  local q = gated(ARGV[i])
  if not seen[q] then
    seen[q] = true
    promote(q, 100)
    lanes[#lanes + 1] = q
  end
end
flush()

local state = {}
for _, q in ipairs(lanes) do
  local row = redis.call('HMGET', totals_key(q), 'depth', 'in_flight', 'parked', 'spilled')
  if tonumber(row[4] or 0) > 0 and tonumber(row[1] or 0) <= most then
    take_in(q, 50)
    row = redis.call('HMGET', totals_key(q), 'depth', 'in_flight', 'parked')
  end
  state[q] = {depth = tonumber(row[1] or 0), busy = tonumber(row[2] or 0), policy = policy_or_default(q)}
  if tonumber(row[3] or 0) > 0 then bring_back(q, state[q].policy, most) end
  local gone = shed_overdue(q, state[q].policy, state[q].depth, most)
  if gone > 0 then state[q].depth, state[q].freed = state[q].depth - gone, gone end
end

local sched_key = root .. 'schedule'
local function oldest_ms(q)
  local head = redis.call('ZRANGE', root .. 'heads:' .. q, 0, 0, 'WITHSCORES')
  return head[2] and now - to_ms(tonumber(head[2])) or 0
end

-- Slots kept for a class: another may take one only while enough of them stay free for it.
local kept_settings = redis.call('HMGET', root .. 'settings', 'slots', 'barred')
local reserve, barred = tonumber(kept_settings[1] or nil), kept_settings[2]
local function leaves_reserve(q)
  if not reserve then return true end
  local busy, kept = 0, 0
  for name, s in pairs(state) do
    busy = busy + s.busy
    if name ~= q then kept = kept + math.max(0, (s.policy.reserved_slots or 0) - s.busy) end
  end
  return kept == 0 or reserve - busy > kept
end

-- Which queue is next: rank 0 first; a job past its age ceiling for at most one start in ten; the
-- other ranks in order; the rest by weight and cost (start-time fair queueing over queues).
local function choose()
  local best, best_rank, over, over_age
  local weighted = {}
  for _, q in ipairs(lanes) do
    local s = state[q]
    local p = s.policy
    if s.depth > 0 and not (p.max_in_flight and s.busy >= p.max_in_flight)
      and not (p.downstream and sink_room(p.downstream) <= 0) and leaves_reserve(q) then
      local rank = p.strict_rank
      if rank then
        if not best_rank or rank < best_rank then best, best_rank = q, rank end
      else
        weighted[#weighted + 1] = q
      end
      if rank ~= 0 and p.age_ceiling_s then
        local age = oldest_ms(q)
        if age > p.age_ceiling_s * 1000 and (not over_age or age > over_age) then over, over_age = q, age end
      end
    end
  end
  if best_rank == 0 then return best end
  if over then
    local row = redis.call('HMGET', sched_key, 'starts', 'ceiling')
    local starts, used = tonumber(row[1] or 0), tonumber(row[2] or 0)
    if used * 10 <= starts then
      redis.call('HINCRBY', sched_key, 'ceiling', 1)
      return over
    end
  end
  if best then return best end
  if #weighted == 0 then return nil end
  local present = tonumber(redis.call('HGET', sched_key, 'vt') or 0)
  local pick, pick_tag
  for _, q in ipairs(weighted) do
    local tag = math.max(present, tonumber(redis.call('HGET', sched_key, 'vt:' .. q) or 0))
    if not pick_tag or tag < pick_tag then pick, pick_tag = q, tag end
  end
  return pick, pick_tag
end

local function lifo_now(q, p)
  if p.order ~= 'lifo' then return false end
  local row = redis.call('HMGET', root .. 'modes', '*', q)
  return row[1] == 'saturated' or row[2] == 'saturated'
end

-- The tenant whose turn it is gives its first job. While the newest goes first, what is past the age
-- ceiling is shed: nobody would come to it, and its age would keep the queue saturated for ever.
local function take(q, p)
  local newest_first = lifo_now(q, p)
  if newest_first and p.age_ceiling_s then
    for _ = 1, 10 do
      local head = redis.call('ZRANGE', root .. 'heads:' .. q, 0, 0, 'WITHSCORES')
      if not head[1] or now - to_ms(tonumber(head[2])) <= p.age_ceiling_s * 1000 then break end
      local id = redis.call('ZRANGE', ready_key(q, head[1]), 0, 0)[1]
      local rec = id and read_record(id)
      if not rec or not withdraw(id, rec) then break end
      finish(id, rec, 'shed')
      state[q].depth = state[q].depth - 1
    end
  end
  local turns = root .. 'turns:' .. q
  local turn = redis.call('ZRANGE', turns, 0, 0, 'WITHSCORES')
  local n = turn[1]
  if not n then return nil end
  local line = ready_key(q, n)
  local item
  local most_urgent = p.order == 'edf' and redis.call('ZRANGE', deadlines_key(q, n), 0, 0)[1]
  if most_urgent then
    item = {most_urgent, redis.call('ZSCORE', line, most_urgent)}
    redis.call('ZREM', deadlines_key(q, n), most_urgent)
    redis.call('ZREM', line, most_urgent)
  else
    item = redis.call(newest_first and 'ZPOPMAX' or 'ZPOPMIN', line)
  end
  local id = item[1]
  local rec = id and read_record(id)
  local key = rec and held_back_by(q, p, rec)
  if key then
    park(q, id, rec, key, item[2])
    refresh_line(q, n)
    return nil, rec
  end
  redis.call('HSET', totals_key(q), 'vt', turn[2])
  redis.call('ZADD', turns, turn[2] + (rec and rec.c or 1), n)
  refresh_line(q, n)
  return id, rec, n
end

local jobs, skipped = {}, 0
while #jobs < most and skipped < 50 do
  local q, tag = choose()
  if not q then break end
  local s = state[q]
  local id, rec, n = take(q, s.policy)
  if not id and rec then skipped = skipped + 1
  elseif not id then s.depth = 0
  else
    s.depth = s.depth - 1
    s.freed = (s.freed or 0) + 1
    local payload = rec and redis.call('HGET', root .. 'payloads', id)
    if not payload then
      -- Its data was deleted from under the gate: said, not passed over.
      bump(q, n, 'depth', -1)
      skipped = skipped + 1
      if rec then
        bump(q, n, 'bytes', -rec.b); bump(q, n, 'cost_ms', -rec.c)
        finish(id, rec, 'lost')
      else
        bump(q, n, 'bytes', -redis.call('HSTRLEN', root .. 'payloads', id))
        redis.call('HDEL', root .. 'payloads', id)
        bump(q, n, 'lost', 1)
      end
    else
      bump(q, n, 'depth', -1); bump(q, n, 'bytes', -rec.b); bump(q, n, 'cost_ms', -rec.c)
      if rec.dd and rec.dd <= now then
        skipped = skipped + 1
        finish(id, rec, 'expired')
      elseif barred and rec.k and redis.call('HEXISTS', root .. 'revoked', rec.k) == 1 then
        skipped = skipped + 1
        end_revoked(id, rec)
      else
        local last = tonumber(redis.call('GET', root .. 'epoch') or 0)
        local epoch = math.max(last + 1, now)
        redis.call('SET', root .. 'epoch', string.format('%.0f', epoch))
        local lease_ms = (s.policy.lease_s or 10) * 1000
        rec.s = 'leased'; rec.ep = epoch; rec.w = worker; rec.cl = now; rec.st = nil
        rec.dl = (rec.dl or 0) + 1
        hold(id, rec, s.policy)
        write_record(id, rec)
        redis.call('ZADD', root .. 'leases', now + lease_ms, id)
        bump(q, n, 'in_flight', 1)
        s.busy = s.busy + 1
        observe('waits', q, now - (rec.e or rec.a))
        redis.call('HINCRBY', sched_key, 'starts', 1)
        if tag then
          redis.call('HSET', sched_key, 'vt', string.format('%.0f', tag),
            'vt:' .. q, string.format('%.0f', tag + math.ceil(rec.c / math.max(0.001, s.policy.weight or 1))))
        end
        jobs[#jobs + 1] = {id, epoch, q, payload, rec.dl, s.policy.max_deliveries or 3, lease_ms, rec.a, rec.t, rec.pc or ''}
      end
    end
  end
end
for q, s in pairs(state) do
  if s.freed then tell_room(q, s.freed) end
end
-- Who ended what was in the way and found nothing yet comes again at once.
if #jobs == 0 and skipped >= 50 then for _, q in ipairs(lanes) do ring(q) end end
flush()
return cmsgpack.pack({now, jobs})
