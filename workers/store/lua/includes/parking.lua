-- parking: jobs that may not start though it is their turn wait aside, by the key that holds them back, so that
-- a claim never looks past them again: each is set aside once and brought back when its key has room.
--
-- Keys: "t:TASK" where a policy caps that task in its queue, "s:NAME" where a job names a downstream of its
-- own. A queue's own downstream sets nobody aside: while it is full the queue as a whole is not chosen.

-- How many more jobs of a key may start now.
local running = {}
local function task_room(q, p, t)
  local cap = p.max_in_flight_per_task and p.max_in_flight_per_task[t]
  if not cap then return math.huge end
  local key = root .. 'running:' .. q .. '|' .. t
  if not running[key] then running[key] = redis.call('SCARD', key) end
  return cap - running[key]
end
local function park_room(q, p, key)
  local name = string.sub(key, 3)
  if string.sub(key, 1, 2) == 't:' then return task_room(q, p, name) end
  return sink_room(name)
end

-- The key that holds a job back now, or nil.
local function held_back_by(q, p, rec)
  if p.max_in_flight_per_task and task_room(q, p, rec.t) <= 0 then return 't:' .. rec.t end
  if rec.ds and rec.ds ~= p.downstream and sink_room(rec.ds) <= 0 then return 's:' .. rec.ds end
  return nil
end

-- A job that starts takes what it needs of its task's cap and of its downstream.
local function hold(id, rec, p)
  if not rec.kt and p.max_in_flight_per_task and p.max_in_flight_per_task[rec.t] then
    local key = root .. 'running:' .. rec.q .. '|' .. rec.t
    redis.call('SADD', key, id)
    if running[key] then running[key] = running[key] + 1 end
    rec.kt = rec.t
  end
  local d = rec.ds or p.downstream
  if d and not rec.kd then hold_sink(d, id, rec) end
end

-- Sets a job aside that has just left its line. Still waiting: count, bytes, cost and age go on.
local function park(q, id, rec, key, score)
  rec.s = 'parked'; rec.pk = key
  redis.call('ZADD', park_key(q, key), score, id)
  redis.call('ZADD', root .. 'parks:' .. q, 'LT', score, key)
  bump(q, rec.n, 'parked', 1)
  write_record(id, rec)
end

-- Brings back as many as have room now, oldest first. Of many keys a few are looked at, each time others.
local KEYS_LOOKED_AT = 16
local function bring_back(q, p, most)
  local parks = root .. 'parks:' .. q
  local known = redis.call('ZCARD', parks)
  local first = known > KEYS_LOOKED_AT and now % known or 0
  for _, key in ipairs(redis.call('ZRANGE', parks, first, first + KEYS_LOOKED_AT - 1)) do
    local room = math.min(most, park_room(q, p, key))
    local ids = room > 0 and redis.call('ZRANGE', park_key(q, key), 0, room - 1, 'WITHSCORES') or {}
    for i = 1, #ids, 2 do
      local id = ids[i]
      local rec = read_record(id)
      if rec then
        leave_park(id, rec)
        rec.s = 'waiting'
        put_ready(q, rec.n, id, tonumber(ids[i + 1]), rec)
        write_record(id, rec)
      else
        leave_park(id, {q = q, pk = key})
        forget_unknown(q, id, 'depth')
      end
    end
  end
end
