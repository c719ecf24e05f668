-- suspend: holds what a tenant has waiting, and refuses what it offers, from the next admit and claim on.
-- KEYS  1 root of the gate
-- ARGV  1 tenant   2 who, when and why (JSON)   3.. queue names
-- Reply msgpack {now, how many of its jobs wait or are delayed}
-- Cost  O(queues log n); does not depend on the number of jobs. Repeating it is safe.
-- @include base
-- @include life
-- @include authority
redis.call('DEL', root .. 'nothing')
local n, held = ARGV[1], 0
redis.call('HSET', root .. 'suspended', n, ARGV[2])
note_barred()
for i = 3, #ARGV do
  local q = ARGV[i]
  if redis.call('ZSCORE', root .. 'tenants:' .. q, n) then
    hold_line(q, n)
    local own = tenant_of(q, n).now
    held = held + (own.depth or 0) + (own.delayed or 0)
  end
end
flush()
return cmsgpack.pack({now, held})
