"""Which Redis keys does a gate have, and what does each hold?

All keys of one gate begin with its root, ``sluicegate:{GATE}:``. The braces are Redis's hash tag, so
that a cluster keeps a gate in one slot. The scripts are given the root and build the same names
(``lua/includes/base.lua``); a test compares the two.

Placeholders: Q queue, N tenant, S number of a 10 s slot, T tenant as its length, ``|`` and its name.

=====================  ======  ==========================================================
key                    type    meaning
=====================  ======  ==========================================================
ops                    hash    operation id -> record (msgpack map, see records.py)
payloads               hash    operation id -> message; ``id:next`` -> message of a retry in the making
ready:Q|N              zset    waiting operations of a tenant by eligible time (base.lua ``to_score``)
turns:Q                zset    tenants with waiting jobs by virtual start time: whose turn it is
heads:Q                zset    tenants with waiting jobs by the score of their oldest
delayed:Q              zset    operations by due time, ms
leases                 zset    operations in flight by the end of their lease, ms
settled                zset    settled operations by time, ms; bounds their retention
tombstones             zset    ids that must not come back, by the time they are forgotten, ms
links, links:until     hash,   later links of admitted canvases -> the operation that brought them
                       zset
quarantined, spool     hash,   failed jobs held until the recorder has copied them to the database
                       zset
totals:Q               string  counters and gauges of a queue (msgpack map); ``refused:REASON``
tenant:Q|N             string  the same of one tenant in it
tenants:Q              zset    tenants by last acceptance, ms
waits:Q:S, services:Q:S hash   histograms (bins.py), each expiring after 80 s
model:Q                hash    what the monitor models: service_rate_per_s, work_rate, seconds_to_drain
rules                  hash    what scripts obey, read in one step: ``policy|Q`` (without what is at the
                               scripts' own default), ``modes`` (msgpack),
                               ``cost|TASK`` (measured mean service time, ms), ``crews`` (how many slots
                               serve which queues, msgpack), ``retention_s``
policies               hash    queue -> its policy as JSON, for people
modes:detail,          hash    scope -> its mode as JSON; when it was set
modes:since
suspended, revoked     hash    tenant -> who, when, why (JSON); API key -> words. ``barred`` in the rules says
                               that there are any
deadlines:Q|N          zset    waiting operations of a tenant by deadline, ms; where the queue's order is edf
parked:Q|KEY           zset    jobs set aside by what holds them back (t:TASK, s:DOWNSTREAM), by eligible time
parks:Q                zset    those keys by the score of their oldest job
running:Q|NAME         set     operations in flight of a task that has a cap
downstreams            hash    downstream -> its settings (JSON) for people
downstream:NAME        hash    the same as fields for the scripts
limit:NAME             hash    a downstream's limit as found, and the window that moves it next
calls:NAME             set     operations in flight that call a downstream
latencies:NAME:S,      hash    histograms of a downstream's latency, and of it with the wait at the gate
gated:NAME:S
schedule               string  the newest fencing epoch, virtual times of the weighted queues, starts since
                               the last one past an age ceiling (msgpack)
workers, worker        zset,   workers by last heartbeat, ms; worker -> description (JSON)
                       hash
bell:Q                 list    wakes idle workers; carries nothing
room:Q                 list    wakes producers that wait for room (on_full = block), 2 s; carries nothing
credits:Q,             hash,   producer -> epoch and credits granted; producers by the end of their grant, ms
credits:until:Q        zset
producers,             hash,   producer -> what stands in it (JSON); producers by when they said so, ms
producers:seen         zset
tickets                hash    ticket of a waiting room -> queue and tenant (tickets.lua)
tickets:line:Q         zset    tickets that wait by whose turn it is
tickets:called:Q       zset    tickets for which a place is kept by when they were called, ms
tickets:due:Q          zset    tickets by when their holder must have come back, ms
order:Q|T|KEY          zset    operations of an ordering key in order of acceptance; the first is in line
blocked:Q              zset    ordering keys that hold work back, by the place of the first parked one
spill:Q                zset    spilled operations by acceptance (base.lua ``to_score``)
spill:Q|N              zset    the same of one tenant
spill:turns:Q          zset    tenants with spilled operations, by whose turn it is
dropped, dropped:at    hash,   offers dropped without an error (the last 10,000) -> what they were; by
                       zset    time, ms
coalesce:Q|T|KEY       string  the newest operation of a coalescing key, a day
sequence:Q|T|KEY       string  the newest source sequence of a key, a day
fence:RESOURCE         string  the newest epoch that wrote to a resource, a day
rate:Q|NAME|T          string  state of a rate limit (rates.lua) of a tenant, a key or all; goes by itself
idempotency:T|KEY      hash    id and body hash of a keyed submit, a day
frame                  string  the newest frame (JSON)
lease:NAME             string  holder of a leadership lease
=====================  ======  ==========================================================
"""

from __future__ import annotations


def root(gate: str) -> str:
    """Beginning of every key of a gate."""
    return f"sluicegate:{{{gate}}}:"


def bell(gate_root: str, queue: str) -> str:
    return f"{gate_root}bell:{queue}"


def room(gate_root: str, queue: str) -> str:
    return f"{gate_root}room:{queue}"


def model(gate_root: str, queue: str) -> str:
    return f"{gate_root}model:{queue}"


def downstream(gate_root: str, name: str) -> str:
    return f"{gate_root}downstream:{name}"


def limit(gate_root: str, name: str) -> str:
    return f"{gate_root}limit:{name}"


def lease(gate_root: str, name: str) -> str:
    return f"{gate_root}lease:{name}"


def named(gate_root: str, name: str) -> str:
    """A key that has no placeholder: ops, payloads, policies, modes, frame, ..."""
    return gate_root + name
