-- swap_payload: puts a payload in the place of the one that was read, if that still stands there.
-- KEYS  1 root of the gate
-- ARGV  1 id (or id:next, a retry in the making)   2 payload as it was read   3 the new one
-- Reply msgpack {now, "swapped"|"gone"}
-- Cost  O(1). Bytes are counted as they are stored.
-- @include base
redis.call('DEL', root .. 'nothing')
local field, more = ARGV[1], #ARGV[3] - #ARGV[2]
if redis.call('HGET', payloads_key, field) ~= ARGV[2] then return cmsgpack.pack({now, 'gone'}) end
redis.call('HSET', payloads_key, field, ARGV[3])
local id = string.match(field, '^(.*):next$') or field
local rec = more ~= 0 and read_record(id)
if rec then
  if id ~= field then
    if rec.nx then rec.nx.b = rec.nx.b + more end
  elseif rec.s == 'spilled' then
    rec.b = rec.b + more
    bump(rec.q, rec.n, 'spilled_bytes', more)
  else
    rec.b = rec.b + more
    if rec.s == 'waiting' or rec.s == 'blocked' or rec.s == 'parked' or rec.s == 'delayed' then bump(rec.q, rec.n, 'bytes', more) end
  end
  write_record(id, rec)
end
flush()
return cmsgpack.pack({now, 'swapped'})
