-- settle: ends leases and records what came of each delivery. A stale epoch changes nothing.
-- KEYS  1 root of the gate
-- ARGV  1.. one msgpack map a delivery: i id, e epoch, o outcome (states.OUTCOMES), st started_at_ms, rt run_ms,
--       er {type, message, traceback}, rr result as text, qr quarantine reason, dy delay_ms before it is offered again,
--       dw what it teaches of its downstream: success|dropped|ignore (by the outcome where it does not say)
-- Reply msgpack {now, {"settled"|"retried"|"returned"|"quarantined"|"stale"|"unknown", ...}}
-- Cost  O(log n) a delivery; about 13 commands for the first that succeeded, 8 for each further one.
-- @include base
-- @include life
-- @include downstream
-- @include settling
local words = settle_all(1, #ARGV)
flush()
return cmsgpack.pack({now, words})
