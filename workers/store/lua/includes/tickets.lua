-- tickets: the waiting room of a queue (waiting_room_max). Who finds it full draws a ticket; as places come free the
-- tickets are called in order, and a place is kept for each that is called until its holder's time is over.
--   tickets:line:Q   ticket -> tag: whose turn it is among tenants (start-time fair queueing), then by number
--   tickets:called:Q ticket -> when it was called     tickets:due:Q ticket -> until when its holder must come back
--   tickets          ticket -> {queue, tenant}
-- Of a queue: tickets_given = tickets_admitted + tickets_expired + tickets (those that are out).
local LONGEST_TOLD_MS, JITTER = 60000, 1.3 -- the door adds up to a quarter to what it tells
local function line_key(q) return root .. 'tickets:line:' .. q end
local function called_key(q) return root .. 'tickets:called:' .. q end
local function due_key(q) return root .. 'tickets:due:' .. q end
local function slot_ms(q) return (policy_or_default(q).waiting_room_slot_s or 10) * 1000 end

local function drop_ticket(q, ticket, how)
  local raw = redis.call('HGET', root .. 'tickets', ticket)
  redis.call('HDEL', root .. 'tickets', ticket)
  redis.call('ZREM', line_key(q), ticket)
  redis.call('ZREM', due_key(q), ticket)
  local was_called = redis.call('ZREM', called_key(q), ticket) == 1
  if not raw then return end
  local n = cmsgpack.unpack(raw)[2]
  bump(q, n, 'tickets', -1)
  add(totals_of(q), how, 1)
  if was_called then add(tenant_of(q, n), 'tickets_called', -1) end
  let_stranger_expire(q, n)
end
-- Who did not come back in time has left: its ticket holds nobody up.
local function expire_tickets(q, most)
  local late = redis.call('ZRANGEBYSCORE', due_key(q), '-inf', now, 'LIMIT', 0, most)
  for _, ticket in ipairs(late) do drop_ticket(q, ticket, 'tickets_expired') end
  return #late
end

-- Places that are free and kept for nobody; nil without max_count (the policy asks for one).
local function free_places(q, depth, delayed)
  local p, mode = policy_or_default(q), mode_in_force(q)
  local share = mode == 'saturated' and (p.saturated_share or 1) or 1
  if mode == 'failed' or (mode == 'draining' and not (p.admit_while_draining == 1)) then share = 0 end
  return math.floor((p.max_count or 0) * share) - depth - delayed - redis.call('ZCARD', called_key(q)), share
end
-- Calls as many as there are free places, in order; a tenant at its own share is passed over until it has room.
local function call_tickets(q, depth, delayed)
  while expire_tickets(q, 100) == 100 do end
  local free, share = free_places(q, depth, delayed)
  if free <= 0 then return free end
  local p = policy_or_default(q)
  local several = (totals_of(q).now.tenants or 0) > 1
  local most = several and math.max(1, p.max_count * share * (p.tenant_share or 0.8)) or p.max_count
  for _, ticket in ipairs(redis.call('ZRANGE', line_key(q), 0, free + 49)) do
    if free <= 0 then break end
    local n = cmsgpack.unpack(redis.call('HGET', root .. 'tickets', ticket))[2]
    local own = tenant_of(q, n)
    if (own.now.depth or 0) + (own.now.delayed or 0) + (own.now.tickets_called or 0) + 1 <= most then
      local totals, tag = totals_of(q), tonumber(redis.call('ZSCORE', line_key(q), ticket))
      if tag > (totals.now.ticket_vt or 0) then set_number(totals, 'ticket_vt', tag) end
      redis.call('ZREM', line_key(q), ticket)
      redis.call('ZADD', called_key(q), now, ticket)
      redis.call('ZADD', due_key(q), 'GT', now + slot_ms(q), ticket)
      add(own, 'tickets_called', 1)
      let_stranger_expire(q, n)
      free = free - 1
    end
  end
  return free
end

-- Whether a ticket is this tenant's for this queue, and where it stands: 'called', 'line' or nil.
local function place_of(q, n, ticket)
  local raw = ticket and redis.call('HGET', root .. 'tickets', ticket)
  if not raw then return nil end
  local owner = cmsgpack.unpack(raw)
  if owner[1] ~= q or owner[2] ~= n then return nil end
  return redis.call('ZSCORE', called_key(q), ticket) and 'called' or 'line'
end

-- A new ticket, or nil where the waiting room, or the tenant's part of it, is full.
local function draw_ticket(q, n, secret)
  local p, totals, own = policy_or_default(q), totals_of(q), tenant_of(q, n)
  local out = totals.now.tickets or 0
  if out >= p.waiting_room_max then return nil end
  -- Also one that is alone leaves a part to who comes later: a ticket that is out is not taken back.
  if (own.now.tickets or 0) + 1 > math.max(1, p.waiting_room_max * (p.tenant_share or 0.8)) then return nil end
  local number = (totals.now.ticket_number or 0) + 1
  set_number(totals, 'ticket_number', number)
  local tag = math.max(totals.now.ticket_vt or 0, own.now.ticket_tag or 0) + 1
  set_number(own, 'ticket_tag', tag)
  local ticket = string.format('%012x', number) .. string.sub(redis.sha1hex(owned(n, secret)), 1, 24)
  redis.call('HSET', root .. 'tickets', ticket, cmsgpack.pack({q, n}))
  redis.call('ZADD', line_key(q), tag, ticket)
  bump(q, n, 'tickets', 1)
  add(totals, 'tickets_given', 1)
  return ticket
end

-- What its holder is told: {ticket, position (0: called), tickets out, modeled ms until it is called (false: not known),
-- ms after which to come back, ms until which it must}. Being told makes the appointment anew.
local function tell_ticket(q, ticket)
  local rank = redis.call('ZRANK', line_key(q), ticket)
  local rate = tonumber(redis.call('HGET', root .. 'model:' .. q, 'service_rate_per_s') or 0)
  local modeled = not rank and 0 or (rate > 0 and math.ceil((rank + 1) * 1000 / rate)) or false
  local told = math.max(1000, math.min(LONGEST_TOLD_MS, modeled or math.min(20000, 2000 + 50 * (rank or 0))))
  local due = now + math.ceil(told * JITTER) + slot_ms(q)
  if rank then redis.call('ZADD', due_key(q), due, ticket) -- of one that is called the slot runs
  else due = tonumber(redis.call('ZSCORE', due_key(q), ticket) or now) end
  return {ticket, rank and rank + 1 or 0, totals_of(q).now.tickets or 0, modeled, told, due}
end
