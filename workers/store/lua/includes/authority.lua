-- authority: may this tenant, or this key, still have work done? Included after base, never run alone.
--
-- "suspended" is tenant -> who, when, why (JSON); "revoked" is API key -> words for people. Both are empty in the
-- usual case, which a field "barred" in the rules says: they are read anyway, so that nobody pays for what nobody
-- uses.
--
-- A tenant's lines stay where they are while it is suspended; what goes is its turn and its head, by a field
-- "held" in its counters of each queue. So no claim sees them, and they are no part of a queue's age.
local function barred_by(n, key)
  if redis.call('HEXISTS', root .. 'suspended', n) == 1 then return 'suspended' end
  if key and redis.call('HEXISTS', root .. 'revoked', key) == 1 then return 'revoked' end
  return nil
end

local function note_barred()
  if redis.call('EXISTS', root .. 'suspended', root .. 'revoked') > 0 then
    redis.call('HSET', rules_key, 'barred', '1')
  else
    redis.call('HDEL', rules_key, 'barred')
  end
end

local function hold_line(q, n)
  local tag = redis.call('ZSCORE', root .. 'turns:' .. q, n)
  local own = tenant_of(q, n)
  if tag then set_number(own, 'vt', tonumber(tag)) end
  set_number(own, 'held', 1)
  redis.call('ZREM', root .. 'turns:' .. q, n)
  redis.call('ZREM', root .. 'heads:' .. q, n)
end

-- A job of a revoked key ends before it starts. It has left its line already.
local function end_revoked(id, rec)
  local who = redis.call('HGET', root .. 'revoked', rec.k) or rec.k
  rec.cr = 'revoked key ' .. who
  rec.er = {type = 'AuthorityRevoked', message = 'the API key ' .. who .. ' that submitted it was revoked before it started',
    traceback = ''}
  finish(id, rec, 'cancelled')
end
