-- set_mode: changes the mode of the installation ("*") or of a queue. Seen by the next admit.
-- KEYS  1 root of the gate
-- ARGV  1 scope   2 mode ("" = the queue has none of its own any more)   3 until_at_ms ("" = open)
--       4 detail, a JSON document without since_at_ms   5 "1": only if no operator's mode stands
-- Reply msgpack {now, "set"|"kept", detail before or ""}
-- Cost  O(1).
-- @include base
redis.call('DEL', root .. 'nothing')
local scope, mode = ARGV[1], ARGV[2]
local before = redis.call('HGET', root .. 'modes:detail', scope) or ''
if ARGV[5] == '1' and before ~= '' then
  local b = cjson.decode(before)
  if b.automatic == false and not (tonumber(b.until_at_ms) and tonumber(b.until_at_ms) <= now) and b.mode ~= 'normal' then
    return cmsgpack.pack({now, 'kept', before})
  end
end
local packed = rule('modes')
local set = packed and cmsgpack.unpack(packed) or {}
if mode == '' then
  set[scope] = nil
  redis.call('HDEL', root .. 'modes:detail', scope)
else
  set[scope] = {mode, tonumber(ARGV[3])}
  redis.call('HSET', root .. 'modes:detail', scope, ARGV[4])
  redis.call('HSET', root .. 'modes:since', scope, string.format('%.0f', now))
end
redis.call('HSET', rules_key, 'modes', cmsgpack.pack(set))
return cmsgpack.pack({now, 'set', before})
