-- credits: how many offers a producer may attempt before it must ask again. A credit permits an attempt; admit alone
-- decides. A grant is kept by producer and epoch and replaces the one before, so asking twice mints nothing; a newer
-- epoch (the process began anew) ends the older one's, and an older epoch gets none. Unused ones end with their time.
--   credits_granted = credits_used + credits_returned + credits_expired + credits_out
local CREDITS_MS, MOST_CREDITS = 5000, 256
local function credits_key(q) return root .. 'credits:' .. q end
local function credits_until_key(q) return root .. 'credits:until:' .. q end
local function end_grant(q, producer, number, how)
  redis.call('HDEL', credits_key(q), producer)
  redis.call('ZREM', credits_until_key(q), producer)
  add(totals_of(q), 'credits_out', -number)
  add(totals_of(q), how, number)
end
local function read_grant(q, producer)
  local epoch, number = string.match(redis.call('HGET', credits_key(q), producer) or '', '^(%d+) (%d+)$')
  return tonumber(epoch or nil), tonumber(number or 0)
end
local function expire_grants(q, most)
  local over = redis.call('ZRANGEBYSCORE', credits_until_key(q), '-inf', now, 'LIMIT', 0, most)
  for _, producer in ipairs(over) do
    local _, number = read_grant(q, producer)
    end_grant(q, producer, number, 'credits_expired')
  end
  return #over
end

-- What is left of a grant after its producer has told what it used; nil for a producer of an older epoch.
local function settle_grant(q, producer, epoch, used)
  local known, number = read_grant(q, producer)
  if not known then return 0 end
  if known > epoch then return nil end
  if known < epoch then
    end_grant(q, producer, number, 'credits_expired')
    return 0
  end
  used = math.max(0, math.min(used, number))
  add(totals_of(q), 'credits_used', used)
  add(totals_of(q), 'credits_out', -used)
  return number - used
end

-- `room` is how many more offers of this kind the bounds allow now, nil where they do not decide. No producer gets more
-- than its part of it, and all together not more than there is; but each gets one, to look with, unless it is `closed`.
local function grant_credits(q, ask, room, closed)
  local producer, epoch = ask[1], ask[2]
  expire_grants(q, 100)
  local left = settle_grant(q, producer, epoch, ask[3])
  if not left then return nil end
  redis.call('ZADD', credits_until_key(q), now + CREDITS_MS, producer)
  local live, number = redis.call('ZCARD', credits_until_key(q)), MOST_CREDITS
  if room then
    local others = (totals_of(q).now.credits_out or 0) - left
    number = math.max(1, math.min(number, math.floor(room / live), math.floor(room) - others))
  end
  if closed then number = 0 end
  redis.call('HSET', credits_key(q), producer, string.format('%.0f %.0f', epoch, number))
  add(totals_of(q), 'credits_out', number - left)
  add(totals_of(q), number >= left and 'credits_granted' or 'credits_returned', math.abs(number - left))
  return {number, CREDITS_MS, live}
end

-- Rate limits that each producer counts by itself.
local function local_limits(q)
  local found = {}
  for _, l in ipairs(policy_or_default(q).rate_limits or {}) do
    if l.where == 'local' then found[#found + 1] = l end
  end
  return found
end
