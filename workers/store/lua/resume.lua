-- resume: lets a suspended tenant's jobs run again; call it until nothing is left.
-- KEYS  1 root of the gate
-- ARGV  1 tenant   2 how many jobs at most   3.. queue names
-- Reply msgpack {now, jobs that became eligible in this call, "more"|"resumed"}
-- Cost  O(most log n). While it is under way the tenant stays suspended, so a resume that was killed is gone on with.
-- @include base
-- @include life
-- @include authority
redis.call('DEL', root .. 'nothing')
local n, most, moved = ARGV[1], tonumber(ARGV[2]), 0
-- A held job was not eligible. It becomes so now, in the order in which it stood: else its age would count time in
-- which nobody was to run it, and an age bound would refuse everybody for it.
local function renew_line(q)
  local own, totals = tenant_of(q, n), totals_of(q)
  local since = own.now.resuming or to_score(now)
  set_number(own, 'resuming', since)
  local ids = redis.call('ZRANGEBYSCORE', ready_key(q, n), '-inf', '(' .. string.format('%.0f', since), 'LIMIT', 0, most - moved)
  local last = totals.now.last_score or 0
  for _, id in ipairs(ids) do
    local rec = read_record(id)
    if rec then
      last = math.max(last + 1, to_score(now))
      rec.e = to_ms(last)
      redis.call('ZADD', ready_key(q, n), last, id)
      write_record(id, rec)
    else
      -- Deleted from under the gate: the claim will find that, at the end of the line.
      last = math.max(last + 1, to_score(now))
      redis.call('ZADD', ready_key(q, n), last, id)
    end
    moved = moved + 1
  end
  set_number(totals, 'last_score', last)
  return moved < most
end
local done = true
for i = 3, #ARGV do
  local q = ARGV[i]
  local own = tenant_of(q, n)
  if own.now.held then
    if not renew_line(q) then done = false; break end
    set_number(own, 'held', nil)
    set_number(own, 'resuming', nil)
    local head = redis.call('ZRANGE', ready_key(q, n), 0, 0, 'WITHSCORES')
    if head[1] then put_ready(q, n, head[1], tonumber(head[2])); ring(q) end
  end
end
if done then
  redis.call('HDEL', root .. 'suspended', n)
  note_barred()
end
flush()
return cmsgpack.pack({now, moved, done and 'resumed' or 'more'})
