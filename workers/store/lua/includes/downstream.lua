-- downstream: how many jobs may call a downstream at once, over all workers, and what each end teaches.
--
-- The limit is found. A window's answers move it once: `aimd` adds one while the mean latency keeps its
-- target and the limit was in use, and cuts it otherwise (Chiu and Jain 1989; AIMDLimit of Netflix
-- concurrency-limits). `gradient` compares the window's mean with a long one (Gradient2Limit, ibid.).
-- A limit is judged only by calls that began under it: N calls in flight at a cut are one piece of news.

-- Answers that a window needs before it says anything: as many as may be in flight, at most so many.
local ENOUGH = 10
-- A window is bad from one drop in so many answers; fewer are the downstream's own faults, not its load.
local DROPS_IN = 20
-- Gradient2: smoothing of a step, tolerance of the mean over the long mean, windows that the long mean spans.
local SMOOTHING, TOLERANCE, LONG_WINDOWS, WARMUP = 0.2, 1.5, 600, 10

-- The next limit. Pure: `s` settings, `limit` as it stands, `w` the window {n, sum_ms, drops, peak, long_ms}.
local function next_limit(s, limit, w)
  local found = limit
  local mean = w.n > 0 and w.sum_ms / w.n or nil
  local used = w.peak * 10 >= math.floor(limit) * 9
  if w.drops > 0 and w.drops * DROPS_IN >= w.n + w.drops then
    found = math.min(limit - 1, limit * s.backoff)
  elseif not mean then
    found = limit
  elseif s.kind == 'gradient' then
    -- Queueing is allowed for only while the target is kept, so that the target is a bound and not a wish.
    local late = mean > s.target_ms
    if used or late then
      local allowed = math.min(TOLERANCE * w.long_ms, s.target_ms)
      local gradient = math.max(0.5, math.min(1, allowed / mean))
      local goal = limit * gradient + (late and 0 or math.sqrt(limit))
      found = limit * (1 - SMOOTHING) + goal * SMOOTHING
    end
  elseif mean > s.target_ms then
    found = math.min(limit - 1, limit * s.backoff)
  elseif used then
    found = limit + 1
  end
  if s.kind == 'aimd' then found = math.floor(found) end
  return math.max(s.min, math.min(s.max, found))
end

-- The long mean after one more window: a plain mean at first, then exponential; it follows a lasting fall fast.
local function next_long(long_ms, windows, mean)
  local long = windows < WARMUP and (long_ms * windows + mean) / (windows + 1)
    or long_ms + (mean - long_ms) * 2 / (LONG_WINDOWS + 1)
  if long > 2 * mean then long = long * 0.9 end
  return long
end

local SINK_FIELDS = {'kind', 'target_ms', 'min', 'max', 'initial', 'window_ms', 'backoff'}
local sinks = {}
-- A downstream as it stands, read once a call; false where nobody has made one of this name.
local function sink(d)
  local s = sinks[d]
  if s == nil then
    local row = redis.call('HMGET', root .. 'downstream:' .. d, unpack(SINK_FIELDS))
    s = false
    if row[1] then
      s = {kind = row[1]}
      for i = 2, #SINK_FIELDS do s[SINK_FIELDS[i]] = tonumber(row[i]) end
      local now_at = redis.call('HMGET', root .. 'limit:' .. d, 'limit', 'peak')
      s.limit = math.max(s.min, math.min(s.max, tonumber(now_at[1] or s.initial)))
      s.peak = tonumber(now_at[2] or 0)
      s.busy = redis.call('SCARD', root .. 'calls:' .. d)
    end
    sinks[d] = s
  end
  return s
end
local function sink_room(d)
  local s = sink(d)
  return s and math.floor(s.limit) - s.busy or math.huge
end

-- A claimed job takes one of the downstream's calls. The set of holders is the count: it cannot drift.
local function hold_sink(d, id, rec)
  local s = sink(d)
  if not s then return end
  rec.kd = d
  redis.call('SADD', root .. 'calls:' .. d, id)
  s.busy = s.busy + 1
  if s.busy > s.peak then
    s.peak = s.busy
    redis.call('HSET', root .. 'limit:' .. d, 'peak', s.busy)
  end
end

-- What one call teaches. `word`: success (its latency counts), dropped (turned away or timed out) or
-- ignore (says nothing of the downstream's load). `begun` is when the call began.
local WINDOW = {'from', 'n', 'sum_ms', 'drops', 'changed', 'long_ms', 'windows'}
local function teach(d, word, ms, begun)
  local s = sink(d)
  if not s or word == 'ignore' then return end
  local key, w = root .. 'limit:' .. d, {}
  local row = redis.call('HMGET', key, unpack(WINDOW))
  for i, field in ipairs(WINDOW) do w[field] = tonumber(row[i] or 0) end
  redis.call('HINCRBY', key, word == 'dropped' and 'dropped' or 'answered', 1)
  if begun < w.changed then return end
  if w.from == 0 then w.from = now end
  if word == 'dropped' then w.drops = w.drops + 1
  else w.n, w.sum_ms = w.n + 1, w.sum_ms + ms end
  if now - w.from < s.window_ms or w.n + w.drops < math.min(ENOUGH, math.floor(s.limit)) then
    redis.call('HSET', key, 'from', w.from, 'n', w.n, 'sum_ms', w.sum_ms, 'drops', w.drops)
    return
  end
  local mean = w.n > 0 and w.sum_ms / w.n or nil
  if mean then w.long_ms = next_long(w.long_ms, w.windows, mean); w.windows = w.windows + 1 end
  w.peak = s.peak
  local limit = next_limit(s, s.limit, w)
  redis.call('HSET', key, 'limit', string.format('%.4f', limit), 'from', now, 'n', 0, 'sum_ms', 0, 'drops', 0,
    'peak', s.busy, 'long_ms', string.format('%.3f', w.long_ms), 'windows', w.windows, 'window_drops', w.drops)
  if mean then redis.call('HSET', key, 'mean_ms', string.format('%.3f', mean)) end
  if limit ~= s.limit then
    redis.call('HSET', key, 'changed', now)
    redis.call('HINCRBY', key, limit < s.limit and 'cuts' or 'raises', 1)
  end
  s.limit, s.peak = limit, s.busy
end

-- The end of a lease gives its call back. Without a word it says nothing (released, lost).
local function leave_sink(id, rec, word, ms)
  local d = rec.kd
  rec.kd = nil
  local s = sink(d) -- read while it is still among the holders, or it would be taken off the count twice
  if redis.call('SREM', root .. 'calls:' .. d, id) == 1 and s then s.busy = s.busy - 1 end
  -- What the task has reported by itself is known already.
  if rec.sr then rec.sr = nil
  elseif word and word ~= 'ignore' then
    teach(d, word, ms or 0, rec.cl or now)
    if word == 'success' then
      observe('latencies', d, ms or 0)
      observe('gated', d, (ms or 0) + math.max(0, (rec.cl or now) - (rec.e or rec.a)))
    end
  end
end

-- Gives back all that a job took when it started.
local function let_go(id, rec, word, ms)
  if rec.kt then
    redis.call('SREM', root .. 'running:' .. rec.q .. '|' .. rec.kt, id)
    rec.kt = nil
  end
  if rec.kd then leave_sink(id, rec, word, ms) end
end
