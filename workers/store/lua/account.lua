-- account: a producer tells what it has used of its credits and how long it was blocked; at its end it gives back the rest.
-- KEYS  1 root of the gate
-- ARGV  1 producer   2 its epoch   3 "ends", or "asks" for new credits, or "tells"
--       4 what it holds at this moment, as JSON ("" = nothing)   5.. triples: queue, credits used, ms blocked
-- Reply msgpack {now, grants}; to one that asks a grant for each queue as admit gives it, false where it gets none
-- Cost  O(log n) a queue.
-- @include base
-- @include credits
redis.call('DEL', root .. 'nothing')
local producer, epoch, ends, asks = ARGV[1], tonumber(ARGV[2]), ARGV[3] == 'ends', ARGV[3] == 'asks'
local grants = {}
for i = 5, #ARGV, 3 do
  local q, used, blocked = gated(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  if blocked > 0 then add(totals_of(q), 'blocked_ms', blocked) end
  if ends then
    local left = settle_grant(q, producer, epoch, used)
    if left then end_grant(q, producer, left, 'credits_returned') end
  elseif asks then
    local held, most = totals_of(q).now, policy_or_default(q).max_count
    local room = most and math.max(0, most - (held.depth or 0) - (held.delayed or 0))
    local grant = grant_credits(q, {producer, epoch, used}, room)
    if grant then grant[4], grant[5], grant[6] = 0, 'count', local_limits(q) end
    grants[#grants + 1] = grant or false
  end
end
if asks then
  flush()
  return cmsgpack.pack({now, grants})
end
if ARGV[4] ~= '' and not ends then
  redis.call('HSET', root .. 'producers', producer, ARGV[4])
  redis.call('ZADD', root .. 'producers:seen', now, producer)
else
  redis.call('HDEL', root .. 'producers', producer)
  redis.call('ZREM', root .. 'producers:seen', producer)
end
flush()
return cmsgpack.pack({now, grants})
