-- ticket: where does a ticket stand in its queue's waiting room? Asking keeps it alive, and calls whose turn it is.
-- KEYS  1 root of the gate
-- ARGV  1 ticket   2 tenant that may ask ("" = any)
-- Reply msgpack {now, queue, told}: told as tickets.lua tell_ticket gives it; {now} where there is no such ticket
-- Cost  O(log n), and O(log n) for each ticket that is called or has expired.
-- @include base
-- @include tickets
redis.call('DEL', root .. 'nothing')
local raw = redis.call('HGET', root .. 'tickets', ARGV[1])
local owner = raw and cmsgpack.unpack(raw)
if not owner or (ARGV[2] ~= '' and owner[2] ~= ARGV[2]) then return cmsgpack.pack({now}) end
local q = owner[1]
local held = totals_of(q).now
call_tickets(q, held.depth or 0, held.delayed or 0)
local told = place_of(q, owner[2], ARGV[1]) and tell_ticket(q, ARGV[1])
flush()
return cmsgpack.pack(told and {now, q, told} or {now})
