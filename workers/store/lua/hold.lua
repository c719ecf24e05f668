-- hold: puts what cannot be offered at all (unreadable, on an inlet) straight into quarantine.
-- KEYS  1 root of the gate
-- ARGV  1 list key   2 its raw tail   3 id   4 queue   5 tenant   6 task   7 reason   8 error type   9 message
--       10 what is stored of it: the raw message, or its ciphertext
-- Reply msgpack {now, "held"|"gone"}
-- Cost  O(log n).
-- @include base
-- @include life
-- @include privacy
if redis.call('LINDEX', ARGV[1], -1) ~= ARGV[2] then return cmsgpack.pack({now, 'gone'}) end
redis.call('RPOP', ARGV[1])
local id, q, n = ARGV[3], gated(ARGV[4]), ARGV[5]
local rec = {t = ARGV[6], q = q, n = n, b = #ARGV[10], c = 0, a = now, er = {type = ARGV[8], message = ARGV[9], traceback = ''}}
rec.pc = class_of(nil, policy_or_default(q))
bump(q, n, 'offered', 1)
bump(q, n, 'accepted', 1)
meet(q, n)
redis.call('HSET', payloads_key, id, ARGV[10])
quarantine(id, rec, ARGV[7])
flush()
return cmsgpack.pack({now, 'held'})
