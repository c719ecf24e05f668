-- shedding: controlled delay. Work that has waited too long to be worth a slot is shed at the claim, oldest first.
--
-- The form for servers (B. Maurer, "Fail at Scale", ACM Queue 13(8), 2015), not the drop ramp of CoDel for routers,
-- which counts on senders that slow down: while the queue has been empty within the last interval a job may wait
-- an interval; once it has not, a standing queue has formed, and no job waits longer than the target.

-- At most so many in one claim: the rest goes with the next.
local SHED_AT_ONCE = 50

-- Sheds what is overdue in a queue of depth `depth`; how many. As many stay as this claim can take, so that no slot
-- idles for want of younger work.
local function shed_overdue(q, p, depth, most)
  if not p.codel_target_ms or depth <= most then return 0 end
  local filled = totals_of(q).now.filled_at or now
  local allowed = now - filled > p.codel_interval_ms and p.codel_target_ms or p.codel_interval_ms
  local gone = 0
  while gone < SHED_AT_ONCE and depth - gone > most do
    local head = redis.call('ZRANGE', root .. 'heads:' .. q, 0, 0, 'WITHSCORES')
    if not head[1] or now - to_ms(tonumber(head[2])) <= allowed then break end
    local id = redis.call('ZRANGE', ready_key(q, head[1]), 0, 0)[1]
    local rec = id and read_record(id)
    if not rec or not withdraw(id, rec) then break end
    finish(id, rec, 'shed')
    gone = gone + 1
  end
  return gone
end
