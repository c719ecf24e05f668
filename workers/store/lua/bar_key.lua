-- bar_key: what an API key submitted is not started any more, and nothing more is taken from it.
-- KEYS  1 root of the gate
-- ARGV  pairs: key as offers name it, words for people
-- Reply msgpack {now}
-- Cost  O(1) a key; one entry a revoked key is kept.
-- @include base
-- @include life
-- @include authority
redis.call('DEL', root .. 'nothing')
for i = 1, #ARGV, 2 do redis.call('HSET', root .. 'revoked', ARGV[i], ARGV[i + 1]) end
note_barred()
return cmsgpack.pack({now})
