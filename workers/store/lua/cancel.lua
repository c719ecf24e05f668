-- cancel: ends an operation before it starts, or asks a running one to stop.
-- KEYS  1 root of the gate
-- ARGV  1 id   2 tenant that may cancel it ("" = any)   3 who asks
-- Reply msgpack {now, "cancelled"|"requested"|"settled"|"unknown", status}
-- Cost  O(log n).
-- @include base
redis.call('DEL', root .. 'nothing')
local id = ARGV[1]
local rec = read_record(id)
if not rec or (ARGV[2] ~= '' and rec.n ~= ARGV[2]) then return cmsgpack.pack({now, 'unknown', ''}) end
if rec.s == 'leased' then
  rec.cr = rec.cr or ARGV[3]
  write_record(id, rec)
  return cmsgpack.pack({now, 'requested', rec.st and 'running' or 'pending'})
elseif rec.s == 'cancelled' then
  return cmsgpack.pack({now, 'cancelled', 'cancelled'})
elseif not withdraw(id, rec) then
  return cmsgpack.pack({now, 'settled', rec.s})
end
rec.cr = ARGV[3]
finish(id, rec, 'cancelled')
tell_room(rec.q, 1)
flush()
return cmsgpack.pack({now, 'cancelled', 'cancelled'})
