"""Do the documents of the store say what is true: its keys, its scripts' heads, its bins?"""

from __future__ import annotations

import re
from pathlib import Path

import msgpack
import pytest

from workers.limits.downstream import parse_downstream
from workers.store import Settlement, Store, bin_of_ms, bin_value_ms, keys, percentile_ms, scripts
from workers.store.offers import Ask

from .test_admission import an_offer

SCRIPTS = sorted(path.stem for path in scripts.LUA_DIR.glob("*.lua"))


def documented() -> dict[str, str]:
    """Kinds of key by a pattern of their name, from the table in keys.py."""
    assert keys.__doc__ is not None
    rows = keys.__doc__.split("=\n")[2].split("\n=")[0].splitlines()
    found: dict[str, str] = {}
    names, kinds = "", ""
    for row in rows:
        name, kind, meaning = row[:23].strip(), row[23:31].strip(), row[31:]
        if meaning.startswith(" ") and not name and not kind:
            continue
        if name and not names.endswith(","):
            names, kinds = "", ""
        names, kinds = f"{names} {name}".strip(), f"{kinds} {kind}".strip()
        if names.endswith(",") or kinds.endswith(","):
            continue
        each = [part.strip() for part in names.split(",")]
        kind_of = [part.strip() for part in kinds.split(",")]
        kind_of += kind_of[-1:] * (len(each) - len(kind_of))
        found.update(zip(each, kind_of, strict=True))
    return found


def pattern_of(name: str) -> str:
    return "".join(
        ".+" if part in ("Q", "N", "T", "S", "KEY", "NAME", "RESOURCE") else re.escape(part)
        for part in re.split(r"([:|])", name)
    )


def make_busy(store: Store) -> None:
    """Uses everything that the gate can do once."""
    store.admit(
        [
            an_offer(id="one", links=("later",), idempotency_key="k", idempotency_hash="h"),
            an_offer(id="two", tenant="b"),
            an_offer(id="three", delay_ms=3_600_000),
            an_offer("bulk", id="four"),
            an_offer("bulk", id="five", delay_ms=3_600_000),
            an_offer("urgent", id="six", ordering_key="k", source_sequence=1),
            an_offer("urgent", id="seven", coalesce_key="k"),
            an_offer("urgent", id="eight", ordering_key="k"),
        ]
    )
    for _ in range(60):
        store.admit([an_offer()])
    limit = {"per": "tenant", "kind": "fixed_window", "limit": 9, "window_s": 3600, "where": "gate"}
    store.publish_policy("critical", {"rate_limits": [limit]}, version=2)
    store.admit([an_offer("critical")])
    store.publish_policy("critical", {"max_count": 1, "on_full": "drop_newest"}, version=2)
    store.admit([an_offer("critical"), an_offer("critical")])
    store.publish_policy("critical", {"max_count": 1, "on_full": "spill", "spill_max_count": 1}, version=3)
    store.admit([an_offer("critical")])
    store.publish_policy("bulk", {"on_full": "block", "block_s": 1}, version=2)
    claimed = store.claim("w@h", ["normal", "bulk"], 4)
    store.renew("w@h", {"pool": "solo"}, [(job.id, job.epoch, store.clock.now_ms()) for job in claimed])
    error = {"type": "E", "message": "m", "traceback": ""}
    for job, outcome in zip(claimed, ("succeeded", "failed", "retry"), strict=False):
        store.settle([Settlement(job.id, job.epoch, outcome, store.clock.now_ms(), 5, error=error)])
    store.cancel("three", by="o")
    store.set_mode("bulk", "draining", by="o", reason="r", until_at_ms=store.clock.now_ms() + 60_000)
    store.publish_model("normal", {"service_rate_per_s": 1.0, "work_rate": 100.0, "seconds_to_drain": 3.0})
    store.write_settings({"retention_s": 3600})
    store.put_frame("{}")
    store.acquire_lease("monitor", "a", 60_000)
    store.fence("account/7", 1)
    store.publish_downstream("bank", parse_downstream({"initial": 2}).as_fields(), version=1)
    rules = {"order": "edf", "downstream": "bank", "max_in_flight_per_task": {"capped": 1}}
    store.publish_policy("reports", rules, version=1)
    store.admit([an_offer("reports", id=f"c{n}", task="capped", deadline_ms=60_000) for n in range(3)])
    call = store.claim("w@h", ["reports"], 3)[0]
    store.claim("w@h", ["reports"], 3)
    store.settle([Settlement(call.id, call.epoch, "succeeded", store.clock.now_ms(), 5)])
    store.claim("w@h", ["reports"], 1)
    store.admit([an_offer("reports", deadline_ms=60_000)])
    store.suspend_tenant("b", {"by": "o", "reason": "r", "at_ms": 1})
    store.bar_keys({"7": "sg_abc"})
    store.admit([an_offer(ask=Ask("p", 1, 0))])
    store.account("p", 1, queues={}, holds="{}")
    store.publish_policy("sale", {"max_count": 1, "waiting_room_max": 9}, version=1)
    store.admit([an_offer("sale") for _ in range(3)])
    store.claim("w@h", ["sale"], 1)
    store.admit([an_offer("sale")])


def test_every_key_is_in_the_table_with_its_type(store: Store) -> None:
    make_busy(store)
    table = documented()
    unseen = dict(table)
    for raw in store.client.scan_iter("*", count=1000):
        key = raw.decode()
        assert key.startswith(store.root), key
        short = key[len(store.root) :]
        kind = store.client.type(raw).decode()
        matching = [name for name in table if re.fullmatch(pattern_of(name), short)]
        assert matching, f"{short} ({kind}) is not in the table of keys.py"
        assert kind in {table[name] for name in matching}, f"{short} is a {kind}"
        for name in matching:
            unseen.pop(name, None)
    assert not unseen, f"in the table, but nothing made them: {sorted(unseen)}"


def test_every_key_of_one_gate_is_in_one_slot_of_a_cluster(store: Store) -> None:
    make_busy(store)
    hash_tags = {re.search(rb"\{(.+?)\}", key).group(1) for key in store.client.scan_iter("*", count=1000)}  # type: ignore[union-attr]
    assert hash_tags == {b"main"}


def test_two_gates_on_one_server_know_nothing_of_each_other(store: Store) -> None:
    other = Store(store.client, "other")
    other.publish_policy("normal", {"max_count": 1}, version=1)
    other.admit([an_offer(id="same")])
    store.admit([an_offer(id="same")])
    assert [job.id for job in other.claim("w", ["normal"], 5)] == ["same"]
    assert store.size("normal") == 1
    assert store.read_operation("same").phase == "waiting"  # type: ignore[union-attr]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_says_what_it_takes_gives_and_costs(name: str) -> None:
    head = [
        line
        for line in (scripts.LUA_DIR / f"{name}.lua").read_text().splitlines()[:15]
        if line.startswith("--")
    ]
    assert head[0].startswith(f"-- {name}: ")
    for part in (
        "-- KEYS  1 root of the gate",
        "-- ARGV  ",
        "-- Reply msgpack",
        "-- Cost  ",
        "-- @include base",
    ):
        assert any(line.startswith(part) for line in head), f"{name}.lua does not say {part!r}"


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_scripts_head_names_every_argument_that_it_reads(name: str) -> None:
    text = (scripts.LUA_DIR / f"{name}.lua").read_text()
    head = " ".join(line for line in text.splitlines() if line.startswith("-- ") and "@include" not in line)
    body = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    said = head.split("ARGV", 1)[1].split("Reply", 1)[0]
    for number in {int(n) for n in re.findall(r"ARGV\[(\d+)\]", body)}:
        assert re.search(rf"(?<!\d){number}(\.\.)?(?!\d)", said), f"{name}.lua reads ARGV[{number}] unnamed"
    assert not re.search(r"KEYS\[([2-9])\]", body), f"{name}.lua takes more than the root"
    assert "'KEYS'" not in body


#: What Lua and Redis give a script.
GIVEN = {
    "ipairs",
    "pairs",
    "tonumber",
    "type",
    "unpack",
    "function",
    "if",
    "and",
    "or",
    "not",
    "return",
    "elseif",
    "while",
    "until",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_includes_every_function_that_it_calls(name: str) -> None:
    """Lua would only say so in the branch that calls it."""
    text = re.sub(r"--.*|'[^'\n]*'", "", scripts.source(name))
    made = set(re.findall(r"\bfunction (\w+)", text)) | set(re.findall(r"\b(\w+) = function", text))
    called = set(re.findall(r"(?<![.:\w])([A-Za-z_]\w*)\(", text))
    assert called - made - GIVEN == set()


def test_every_script_is_used_by_the_code() -> None:
    code = "\n".join(path.read_text() for path in Path(scripts.__file__).parent.parent.rglob("*.py"))
    assert [name for name in SCRIPTS if f'"{name}"' not in code] == []


@pytest.mark.parametrize("ms", [0, 1, 2, 9, 10, 99, 100, 999, 1000, 12_345, 86_400_000])
def test_lua_and_python_choose_the_same_bin(store: Store, ms: int) -> None:
    source = "".join(
        (scripts.LUA_DIR / "includes" / f"{part}.lua").read_text() for part in ("base", "life")
    ) + (
        "observe('waits', 'normal', tonumber(ARGV[1])) "
        "local slot = string.format('%d', math.floor(now / 10000)) "
        "return cmsgpack.pack(redis.call('HKEYS', root .. 'waits:normal:' .. slot))"
    )
    reply = store.client.eval(source, 1, store.root, ms)
    assert [int(number) for number in msgpack.unpackb(reply)] == [bin_of_ms(ms)]


def test_a_percentile_is_off_by_less_than_four_in_a_hundred() -> None:
    for ms in (10, 250, 8_000, 600_000):
        assert abs(bin_value_ms(bin_of_ms(ms)) - ms) <= max(1, 0.04 * ms)
    bins = {bin_of_ms(100): 90, bin_of_ms(1000): 10}
    half, most = percentile_ms(bins, 0.5), percentile_ms(bins, 0.99)
    assert half is not None
    assert most is not None
    assert abs(half - 100) <= 4
    assert abs(most - 1000) <= 40
    assert percentile_ms({}, 0.5) is None
