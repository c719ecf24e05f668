-- sample: what one call of a downstream came to, told by the task that made it; its run time is not used then.
-- KEYS  1 root of the gate
-- ARGV  1 id   2 epoch   3 "success"|"dropped"|"ignore"   4 ms that the call took
-- Reply msgpack {now, "taught"|"stale"|"none"}
-- Cost  O(1).
-- @include base
-- @include life
-- @include downstream
redis.call('DEL', root .. 'nothing')
local id, word, ms = ARGV[1], ARGV[3], tonumber(ARGV[4])
local rec = read_record(id)
if not rec or rec.s ~= 'leased' or rec.ep ~= tonumber(ARGV[2]) then return cmsgpack.pack({now, 'stale'}) end
local d = rec.kd
if not d then return cmsgpack.pack({now, 'none'}) end
if not rec.sr or word == 'dropped' then
  rec.sr = word
  write_record(id, rec)
end
teach(d, word, ms, now - ms)
if word == 'success' then
  observe('latencies', d, ms)
  observe('gated', d, ms + math.max(0, (rec.cl or now) - (rec.e or rec.a)))
end
return cmsgpack.pack({now, 'taught'})
