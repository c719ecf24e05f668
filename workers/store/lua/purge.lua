-- purge: cancels waiting, delayed and spilled jobs of a queue; call it until it answers 0.
-- KEYS  1 root of the gate
-- ARGV  1 queue   2 who asks   3 how many at most
-- Reply msgpack {now, how many}
-- Cost  O(most log n + jobs in flight).
-- @include base
-- @include life
redis.call('DEL', root .. 'nothing')
local q, most, done = gated(ARGV[1]), tonumber(ARGV[3]), 0
local function drop(id, set)
  local rec = read_record(id)
  if rec and withdraw(id, rec) then
    rec.cr = ARGV[2]
    finish(id, rec, 'cancelled')
  else
    redis.call('ZREM', set, id)
  end
  done = done + 1
end
for _, id in ipairs(redis.call('ZRANGE', root .. 'delayed:' .. q, 0, most - 1)) do drop(id, root .. 'delayed:' .. q) end
while done < most do
  local n = redis.call('ZRANGE', root .. 'turns:' .. q, 0, 0)[1]
  if not n then break end
  for _, id in ipairs(redis.call('ZRANGE', ready_key(q, n), 0, most - done - 1)) do drop(id, ready_key(q, n)) end
  refresh_line(q, n)
end
-- What a suspended tenant has waiting has no turn.
for _, n in ipairs(redis.call('HKEYS', root .. 'suspended')) do
  if done < most then
    for _, id in ipairs(redis.call('ZRANGE', ready_key(q, n), 0, most - done - 1)) do drop(id, ready_key(q, n)) end
  end
end
if done < most then
  for _, id in ipairs(redis.call('ZRANGE', root .. 'spill:' .. q, 0, most - done - 1)) do drop(id, root .. 'spill:' .. q) end
end
while done < most do
  local key = redis.call('ZRANGE', root .. 'parks:' .. q, 0, 0)[1]
  if not key then break end
  local ids = redis.call('ZRANGE', park_key(q, key), 0, most - done - 1)
  for _, id in ipairs(ids) do drop(id, park_key(q, key)) end
  if #ids == 0 then redis.call('ZREM', root .. 'parks:' .. q, key) end
end
-- What is parked behind a running job of its ordering key stands in no line.
if done < most then
  for _, running in ipairs(redis.call('ZRANGE', root .. 'leases', 0, -1)) do
    local rec = read_record(running)
    if rec and rec.q == q and rec.ok and done < most then
      for _, id in ipairs(redis.call('ZRANGE', order_key(rec), 0, most - done)) do
        if id ~= running and done < most then drop(id, order_key(rec)) end
      end
    end
  end
end
if done > 0 then tell_room(q, done) end
flush()
return cmsgpack.pack({now, done})
