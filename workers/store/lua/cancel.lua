-- cancel: ends an operation before it starts, or asks a running one to stop.
-- KEYS  1 root of the gate
-- ARGV  1 id   2 tenant that may cancel it ("" = any)   3 who asks
-- Reply msgpack {now, "cancelled"|"requested"|"settled"|"unknown", status, whether this call changed it}
-- Cost  O(log n).
-- @include base
-- @include life
redis.call('DEL', root .. 'nothing')
local id = ARGV[1]
local rec = read_record(id)
if not rec or (ARGV[2] ~= '' and rec.n ~= ARGV[2]) then return cmsgpack.pack({now, 'unknown', '', false}) end
if rec.s == 'leased' then
  local asked = rec.cr
  rec.cr = asked or ARGV[3]
  if not asked then write_record(id, rec) end
  return cmsgpack.pack({now, 'requested', rec.st and 'running' or 'pending', not asked})
elseif rec.s == 'cancelled' then
  return cmsgpack.pack({now, 'cancelled', 'cancelled', false})
elseif not withdraw(id, rec) then
  return cmsgpack.pack({now, 'settled', rec.s, false})
end
rec.cr = ARGV[3]
finish(id, rec, 'cancelled')
tell_room(rec.q, 1)
flush()
return cmsgpack.pack({now, 'cancelled', 'cancelled', true})
