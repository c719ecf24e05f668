-- claim: a worker's turn. Ends the deliveries that it has done with, then chooses the next jobs by policy and gives
--       each a lease and a fencing epoch: what frees a slot and what fills it cost one round trip.
-- KEYS  1 root of the gate
-- ARGV  1 worker name   2 how many at most   3 how many deliveries end   4.. these, as settle.lua takes them
--       then queue names, as the worker consumes them
-- Reply msgpack {now, jobs, words}; words are settle.lua's, one an ended delivery; a job is {id, epoch, queue, payload, deliveries, max_deliveries, lease_ms, accepted_at_ms, task,
--       payload class or ""}. The last job is the one with which the payloads come to 4 MiB, if they do.
-- Cost  O(queues + jobs log n) beside the settling; about 17 commands for one job of one queue. Expired heads are ended on the way,
--       at most 50 a call.
-- @include base
-- @include life
-- @include authority
-- @include spill
-- @include downstream
-- @include parking
-- @include shedding
-- @include settling
-- A full Redis refuses what adds to it until a script has taken something away, so every path below takes first:
-- draining must work when nothing can be added.
local worker, most, ending = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local asked, sheets_asked = {}, {root .. 'schedule'}
for i = 4 + ending, #ARGV do asked[#asked + 1] = ARGV[i] end
read_rules_of(asked, {'crews'})
for _, name in ipairs(asked) do sheets_asked[#sheets_asked + 1] = totals_key(gated(name)) end
read_sheets(sheets_asked)
local words = settle_all(4, 3 + ending, true)
local lanes, state, waiting, reserving = {}, {}, 0, false
for _, name in ipairs(asked) do
  local q = gated(name)
  if not state[q] then
    local p, totals = policy_or_default(q), totals_of(q).now
    local spilled = totals.spilled or 0
    if (totals.delayed or 0) > spilled then promote(q, 100) end
    if spilled > 0 and (totals.depth or 0) <= most then take_in(q, 50) end
    if (totals.parked or 0) > 0 then bring_back(q, p, most) end
    local gone = shed_overdue(q, p, totals.depth or 0, most)
    lanes[#lanes + 1] = q
    state[q] = {depth = totals.depth or 0, busy = totals.in_flight or 0, policy = p, freed = gone > 0 and gone or nil}
    waiting = waiting + state[q].depth
    reserving = reserving or (p.reserved_slots or 0) > 0
  end
end
local schedule = read_sheet(root .. 'schedule')

local function oldest_ms(q)
  local head = redis.call('ZRANGE', root .. 'heads:' .. q, 0, 0, 'WITHSCORES')
  return head[2] and now - to_ms(tonumber(head[2])) or 0
end

-- Slots kept for a class: another may take one only while enough of them stay free for it, of all slots whose
-- workers serve any of these queues. The last slot is kept for nobody: where fewer live than classes reserve, the
-- others would not run at all.
local slots, barred = 0, rule('barred')
if reserving and rule('crews') then
  for _, crew in ipairs(cmsgpack.unpack(rule('crews'))) do
    for _, name in ipairs(crew.queues) do
      if state[name] then
        slots = slots + crew.slots
        break
      end
    end
  end
end
local function leaves_reserve(q)
  if slots == 0 then return true end -- nothing is reserved, or nobody has counted them yet
  local busy, reserved, in_use = 0, 0, 0
  for name, s in pairs(state) do
    local own = name ~= q and s.policy.reserved_slots or 0
    busy = busy + s.busy
    reserved = reserved + own
    in_use = in_use + math.min(own, s.busy)
  end
  local kept = math.min(reserved, slots - 1) - in_use
  return kept <= 0 or slots - busy > kept
end

-- Whether the queue as a whole may start one more.
local function has_room(q)
  local s = state[q]
  local p = s.policy
  return not (p.max_in_flight and s.busy >= p.max_in_flight)
    and not (p.downstream and sink_room(p.downstream) <= 0) and leaves_reserve(q)
end

-- Which queue is next: rank 0 first; a job past its age ceiling for at most one start in ten; the
-- other ranks in order; the rest by weight and cost (start-time fair queueing over queues).
local function choose()
  local best, best_rank, over, over_age
  local weighted = {}
  for _, q in ipairs(lanes) do
    local s = state[q]
    local p = s.policy
    if s.depth > 0 and has_room(q) then
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
  if over and (schedule.now.since_ceiling or 9) >= 9 then
    return over, nil, true
  end
  if best then return best end
  if #weighted == 0 then return nil end
  local present = schedule.now.vt or 0
  local pick, pick_tag
  for _, q in ipairs(weighted) do
    local tag = math.max(present, schedule.now['vt:' .. q] or 0)
    if not pick_tag or tag < pick_tag then pick, pick_tag = q, tag end
  end
  return pick, pick_tag
end

local function lifo_now(q, p)
  return p.order == 'lifo' and mode_in_force(q) == 'saturated'
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
  local turns, heads = root .. 'turns:' .. q, root .. 'heads:' .. q
  local turn = redis.call('ZRANGE', turns, 0, 1, 'WITHSCORES')
  local n, tag = turn[1], tonumber(turn[2])
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
  set_number(totals_of(q), 'vt', tag)
  tag = tag + (rec and rec.c or 1)
  local head = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
  if head[1] then
    redis.call('ZADD', heads, head[2], n)
    -- Who is alone has every turn.
    if turn[3] then redis.call('ZADD', turns, tag, n) end
  else
    redis.call('ZREM', heads, n)
    redis.call('ZREM', turns, n)
    set_number(tenant_of(q, n), 'vt', tag)
  end
  return id, rec, n
end

-- A reply of more would not be over within a client's timeout (connections.py), and its jobs would be lost to it
-- until their leases ran out. What is taken cannot be put back as cheaply, so the one that passes it goes along.
local REPLY_BYTES = 4 * 1024 * 1024
local jobs, skipped, carried = {}, 0, 0
while waiting > 0 and #jobs < most and carried < REPLY_BYTES and skipped < 50 do
  local q, tag, past_ceiling = choose()
  if not q then break end
  local s = state[q]
  local id, rec, n = take(q, s.policy)
  if not id and rec then skipped = skipped + 1
  elseif not id then s.depth = 0
  else
    s.depth = s.depth - 1
    s.freed = (s.freed or 0) + 1
    local payload = rec and redis.call('HGET', payloads_key, id)
    if not payload then
      -- Its data was deleted from under the gate: said, not passed over.
      bump(q, n, 'depth', -1)
      skipped = skipped + 1
      if rec then
        bump(q, n, 'bytes', -rec.b); bump(q, n, 'cost_ms', -rec.c)
        finish(id, rec, 'lost')
      else
        bump(q, n, 'bytes', -redis.call('HSTRLEN', payloads_key, id))
        redis.call('HDEL', payloads_key, id)
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
        local epoch = math.max((schedule.now.epoch or 0) + 1, now)
        set_number(schedule, 'epoch', epoch)
        local lease_ms = (s.policy.lease_s or 10) * 1000
        rec.s = 'leased'; rec.ep = epoch; rec.w = worker; rec.cl = now; rec.st = nil
        rec.dl = (rec.dl or 0) + 1
        hold(id, rec, s.policy)
        write_record(id, rec)
        redis.call('ZADD', root .. 'leases', now + lease_ms, id)
        bump(q, n, 'in_flight', 1)
        s.busy = s.busy + 1
        observe('waits', q, now - (rec.e or rec.a))
        -- Counted from the last such start and no further: a quiet week would save up an hour of them, all at once.
        set_number(schedule, 'since_ceiling', past_ceiling and 0 or math.min(9, (schedule.now.since_ceiling or 9) + 1))
        if tag then
          set_number(schedule, 'vt', tag)
          set_number(schedule, 'vt:' .. q, tag + math.ceil(rec.c / math.max(0.001, s.policy.weight or 1)))
        end
        carried = carried + #payload
        jobs[#jobs + 1] = {id, epoch, q, payload, rec.dl, s.policy.max_deliveries or 3, lease_ms, rec.a, rec.t, rec.pc or ''}
      end
    end
  end
end
for q, s in pairs(state) do
  if s.freed then tell_room(q, s.freed) end
end
-- Who has a slot left though something waits (a cap, a downstream, a reserve, a key, a suspension) only listens:
-- whatever may change that in these queues rings for it, however much waits (base.lua ring, settling.lua).
if #jobs < most and carried < REPLY_BYTES then
  local left = 0
  for _, q in ipairs(lanes) do left = left + (totals_of(q).now.depth or 0) end
  for _, q in ipairs(lanes) do
    local totals, awaited = totals_of(q), left == 0 and 0 or has_room(q) and 2 or 1
    if awaited ~= (totals.now.awaited or 0) then
      redis.call('DEL', root .. 'nothing')
      set_number(totals, 'awaited', awaited)
    end
  end
end
-- Who ended what was in the way and found nothing yet comes again at once.
if #jobs == 0 and skipped >= 50 then for _, q in ipairs(lanes) do ring(q) end end
flush()
return cmsgpack.pack({now, jobs, words})
