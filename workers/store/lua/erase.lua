-- erase: removes what operations carry; what waits ends as cancelled, what runs is asked to stop and keeps nothing.
-- KEYS  1 root of the gate
-- ARGV  1 receipt   2.. ids
-- Reply msgpack {now, {{id, place, task, worker, started_at_ms}, ...}}; a place is waiting, delayed, spilled, running, held
--       (in quarantine, not recorded yet), settled, again (this receipt's already) or unknown
-- Cost  O(log n) an id. Each id gets a tombstone, known or not. Repeating it is safe.
-- @include base
-- @include life
redis.call('DEL', root .. 'nothing')
local receipt, out = ARGV[1], {}
local PLACES = {waiting = 'waiting', blocked = 'waiting', parked = 'waiting', delayed = 'delayed', spilled = 'spilled',
  leased = 'running'}
for i = 2, #ARGV do
  local id = ARGV[i]
  local rec = read_record(id)
  local spooled = redis.call('ZREM', root .. 'spool', id) == 1
  if spooled then
    redis.call('HDEL', root .. 'quarantined', id)
    redis.call('HDEL', payloads_key, id)
  end
  bury(id)
  if not rec then
    out[#out + 1] = {id, spooled and 'held' or 'unknown', '', '', 0}
  elseif rec.xd == receipt then
    out[#out + 1] = {id, 'again', rec.t, rec.w or '', rec.st or 0}
  else
    local place = PLACES[rec.s] or (spooled and 'held' or 'settled')
    rec.xd = receipt
    rec.xp = place
    rec.cr = rec.cr or (place ~= 'settled' and place ~= 'held') and 'deletion ' .. receipt or nil
    if place == 'running' then
      rec.nx = nil
      redis.call('HDEL', payloads_key, id, id .. ':next')
      strip(rec)
      write_record(id, rec)
    elseif place ~= 'settled' and place ~= 'held' then
      withdraw(id, rec)
      finish(id, rec, 'cancelled')
    else
      strip(rec)
      rec.ok = nil
      write_record(id, rec)
    end
    out[#out + 1] = {id, place, rec.t, rec.w or '', rec.st or 0}
  end
end
flush()
return cmsgpack.pack({now, out})
