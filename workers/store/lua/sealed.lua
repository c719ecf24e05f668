-- sealed: with which keys stored payloads are encrypted; the payloads stay on the server.
-- KEYS  1 root of the gate
-- ARGV  1 cursor   2 how many about   3 beginning of a payload under the current key ("" = name none)
-- Reply msgpack {now, next cursor ("0" = all were seen), {key or "": how many}, ids whose payload begins otherwise}
-- Cost  O(about that many), whatever their size.
-- @include base
local found = redis.call('HSCAN', payloads_key, ARGV[1], 'COUNT', ARGV[2])
local counts, others = {}, {}
for i = 1, #found[2], 2 do
  local id, payload = found[2][i], found[2][i + 1]
  local key = string.match(string.sub(payload, 1, 13), '^sg1:(%x+):$') or ''
  counts[key] = (counts[key] or 0) + 1
  if ARGV[3] ~= '' and string.sub(payload, 1, #ARGV[3]) ~= ARGV[3] then others[#others + 1] = id end
end
return cmsgpack.pack({now, found[1], counts, others})
