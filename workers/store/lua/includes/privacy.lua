-- privacy: what an operation's record says of its payload. Included after base, never run alone.

-- The class that a record keeps: the one stated, else the policy's; nil stands for internal, the usual one.
local function class_of(stated, policy)
  local class = stated or policy.payload_class
  if class == 'internal' then return nil end
  return class
end

-- A later link of a canvas is about whoever the operation that brought it is about.
local function inherit(rec, parent)
  if not parent then return end
  if not rec.pc then rec.pc = parent.pc or 'internal' end
  rec.tg = rec.tg or parent.tg
  rec.k = rec.k or parent.k
end

-- A secret payload is taken only as ciphertext (workers/privacy/seal.py).
local function is_bare_secret(o, policy)
  return (o.pc or policy.payload_class) == 'secret' and string.sub(o.payload, 1, 4) ~= 'sg1:'
end
