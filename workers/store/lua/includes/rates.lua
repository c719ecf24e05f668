-- rates: may an offer pass its queue's rate limits now? Included by admit; a queue without limits costs no command.
--
-- A state is a text, "" at first, of whole numbers only, so nothing drifts. A clock that steps back never makes
-- room: what was counted then counts as of now. After a step forward what time passed is believed.
-- Each kind: (state, now, limit, n) -> whether n fit, the state with them, ms until they fit (nil: never), how
-- many fit after that, ms until the state means nothing any more.

-- Token bucket; a leaky bucket used as a meter (ITU-T I.371) is its mirror image, and by default without a burst.
-- Counted in 1/window of a token, so that each ms brings `limit` of them: exact, and below 2^53 (policy.py).
local function bucket(state, now, l, n)
  local full = l.burst * l.window
  local level, at = string.match(state, '^(%d+) (%d+)$')
  level = level and math.min(full, math.min(full, tonumber(level)) + math.max(0, now - tonumber(at)) * l.limit) or full
  local need = n * l.window
  if need > level then
    local wait = need <= full and math.ceil((need - level) / l.limit) or nil
    return false, string.format('%.0f %.0f', level, now), wait, math.floor(level / l.window), math.ceil((full - level) / l.limit)
  end
  level = level - need
  return true, string.format('%.0f %.0f', level, now), 0, math.floor(level / l.window), math.ceil((full - level) / l.limit)
end

-- Windows that begin at whole multiples of their length since 1970.
local function fixed_window(state, now, l, n)
  local index, count = string.match(state, '^(%d+) (%d+)$')
  local current = math.floor(now / l.window)
  index, count = tonumber(index or current), tonumber(count or 0)
  if index < current then count = 0 end
  local rest = (current + 1) * l.window - now
  local fits = count + n <= l.limit
  if fits then count = count + n end
  return fits, string.format('%.0f %.0f', current, count), n <= l.limit and rest or nil, math.max(0, l.limit - count), rest
end

-- Any stretch of one window's length. Counted by sixtieths of it (of 1 ms at least), each until its last
-- ms is out of reach: the limit is never passed, and an offer is refused up to a sixtieth longer than need be.
local SLOTS = 60
local function sliding_window(state, now, l, n)
  local width = math.ceil(l.window / SLOTS)
  local current, slots, sum = math.floor(now / width), {}, 0
  local function gone_at(slot) return (slot + 1) * width - 1 + l.window end
  for slot, count in string.gmatch(state, '(%d+) (%d+)') do
    slot, count = math.min(current, tonumber(slot)), tonumber(count)
    if gone_at(slot) > now then
      local last = slots[#slots]
      if last and last[1] == slot then last[2] = last[2] + count else slots[#slots + 1] = {slot, count} end
      sum = sum + count
    end
  end
  local fits, wait = sum + n <= l.limit, 0
  if fits then
    local last = slots[#slots]
    if last and last[1] == current then last[2] = last[2] + n elseif n > 0 then slots[#slots + 1] = {current, n} end
    sum = sum + n
  else
    wait = nil
    local left = sum
    for _, slot in ipairs(slots) do
      left = left - slot[2]
      if left + n <= l.limit then wait = gone_at(slot[1]) - now; break end
    end
  end
  local text = {}
  for i, slot in ipairs(slots) do text[i] = string.format('%.0f %.0f', slot[1], slot[2]) end
  local last = slots[#slots]
  return fits, table.concat(text, ' '), wait, math.max(0, l.limit - sum), last and gone_at(last[1]) - now or 1
end

local KINDS = {token_bucket = bucket, leaky_bucket = bucket, fixed_window = fixed_window, sliding_window = sliding_window}

-- What this call knows of the limits that it met, each state read once.
local rates = {}
local function rates_of(o, q, p)
  local found, unread, unread_keys = {}, {}, {}
  for _, l in ipairs(p.rate_limits) do
    if l.where ~= 'local' then
      local subject = l.per == 'queue' and '*' or l.per == 'tenant' and o.n or owned(o.n, o.k or '')
      local key = root .. 'rate:' .. q .. '|' .. string.format('%s-%s-%.0f', l.per, l.kind, l.window_s * 1000) .. '|' .. subject
      local r = rates[key]
      if not r then
        r = {key = key, per = l.per, kind = l.kind, limit = l.limit, burst = l.burst or l.limit, window = math.floor(l.window_s * 1000 + 0.5)}
        rates[key] = r
        unread[#unread + 1], unread_keys[#unread_keys + 1] = r, key
      end
      found[#found + 1] = r
    end
  end
  if #unread > 0 then
    for i, raw in ipairs(redis.call('MGET', unpack(unread_keys))) do
      local promised, state = string.match(raw or '0;', '^(%d+);(.*)$')
      unread[i].promised, unread[i].state, unread[i].read = tonumber(promised), state, state
    end
  end
  return found
end

-- The first limit that has no room for this offer, and ms until it has (nil: never). Charges nothing.
local function rate_passed(o, q, p)
  for _, r in ipairs(rates_of(o, q, p)) do
    local fits, _, wait = KINDS[r.kind](r.state, now, r, 1)
    if not fits then return r, wait end
  end
  return nil
end

local function charge_rates(o, q, p)
  for _, r in ipairs(rates_of(o, q, p)) do
    local _
    _, r.state = KINDS[r.kind](r.state, now, r, 1)
    r.touched = true
  end
end
-- A call that is refused whole has charged nothing. All of it must fit when it comes back.
local function forgive_rates(refusal, verdicts)
  for _, r in pairs(rates) do r.state, r.touched = r.read, nil end
  local r, number = refusal.limited, 0
  if not r then return end
  for _, verdict in ipairs(verdicts) do
    if verdict.rated and verdict[3] == refusal[3] then number = number + 1 end
  end
  local _
  _, _, refusal.wait = KINDS[r.kind](r.state, now, r, number)
end

-- When to come back, in ms. The k-th that is refused needs the room of k more, so each takes the next place in a
-- line of promised returns, two windows long.
local NEVER_MS = 60000
local function rate_retry_after(r, wait)
  if not wait then return NEVER_MS end
  local at = math.max(now + wait, r.promised + r.window / r.limit)
  if at > now + wait + math.max(2000, 2 * r.window) then at = now + wait end
  r.promised, r.touched = math.ceil(at), true
  return math.max(1, r.promised - now)
end

-- What is left of each limit that an offer met, for its answer: {per, kind, limit, window_ms, left, ms until it is whole}.
local function tell_rates(o, q, p)
  local told = {}
  for i, r in ipairs(rates_of(o, q, p)) do
    local fits, _, _, left, rest = KINDS[r.kind](r.state, now, r, 0)
    told[i] = {r.per, r.kind, r.limit, r.window, fits and left or 0, rest}
  end
  return told
end

-- A key lives as long as its state means something.
local function write_rates()
  for _, r in pairs(rates) do
    if r.touched then
      local _, state, _, _, rest = KINDS[r.kind](r.state, now, r, 0)
      redis.call('SET', r.key, string.format('%.0f;', r.promised) .. state, 'PX', math.max(1, rest, r.promised - now))
    end
  end
end
