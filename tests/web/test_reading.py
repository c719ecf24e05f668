"""Is what is read true, bounded and in the agreed form?"""

from __future__ import annotations

import json

import pytest
from django.db import connection

from queues_ui.api import paging
from queues_ui.queries import history
from workers.models import (
    Alert,
    AlertRule,
    ApiKey,
    Deletion,
    JournalEntry,
    PolicyVersion,
    QuarantinedJob,
    ReplayBatch,
    ReplayItem,
    Sample,
    Suspension,
    Transition,
)

pytestmark = pytest.mark.database


def test_the_frame_comes_with_its_age(api, frame):
    seen = api.get("/queues").json()
    assert (seen["seq"], seen["queues"][0]["depth"]) == (7, 2)
    assert 0 <= seen["sampled_ago_ms"] < 5000


def test_without_a_monitor_there_is_no_made_up_frame(api, gate):
    answer = api.get("/queues")
    assert (answer.status_code, answer.json()["reason"]) == (503, "unavailable")


def test_a_dead_redis_is_told_everywhere_and_the_page_stays_up(api, logged_in, settings):
    settings.SLUICEGATE_REDIS_URL = "unix:///nowhere/redis.sock"
    from workers.actions.gate import open_gate

    session = logged_in("viewer")
    open_gate.cache_clear()
    for path in ("/queues", "/mode", "/jobs/x"):
        assert api.get(path).json()["reason"] == "unavailable"
    assert session.client.get("/").status_code == 200
    assert session.client.get("/healthz").status_code == 200
    assert session.client.get("/readyz").status_code == 503
    assert b"sluicegate_up 0.0" in session.client.get("/metrics").content


def test_metrics_have_a_sample_for_every_queue_and_bounded_labels(api, frame, gate):
    text = api.client.get("/metrics").content.decode()
    assert 'sluicegate_queue_depth{queue="normal"} 2.0' in text
    assert 'sluicegate_shed_total{queue="normal"} 0.0' in text
    assert 'sluicegate_refused_by_reason_total{queue="normal",reason="other"} 2.0' in text
    assert "sluicegate_sampled_at" in text
    frame["tenants"] = [{"tenant": f"t{i}", "depth": i} for i in range(500)]
    gate.put_frame(json.dumps(frame))
    assert api.client.get("/metrics").content.decode().count("sluicegate_tenant_depth{") == 21


def test_metrics_count_what_is_odd(api, gate, frame):
    frame["queues"][0]["anomalies"] = {"tombstone_hits": 2, "ambiguous_completions": 1}
    gate.put_frame(json.dumps(frame))
    text = api.client.get("/metrics").content.decode()
    for kind, number in (
        ("duplicate_deliveries", 0.0),
        ("tombstone_hits", 2.0),
        ("ambiguous_completions", 1.0),
    ):
        assert f'sluicegate_anomalies_total{{kind="{kind}",queue="normal"}} {number}' in text


def test_metrics_of_a_downstream_say_its_limit_and_latencies_with_and_without_the_wait(api, gate, frame):
    frame["downstreams"] = [
        {
            **dict.fromkeys(("answered", "dropped", "cuts", "raises"), 3),
            "name": "bank",
            "limit": 4,
            "in_flight": 2,
            "latency_ms": {"p50": 100, "p95": 150, "p99": 200},
            "gated_ms": {"p50": 1100, "p95": 2000, "p99": None},
        }
    ]
    gate.put_frame(json.dumps(frame))
    text = api.client.get("/metrics").content.decode()
    assert 'sluicegate_downstream_limit{downstream="bank"} 4.0' in text
    assert 'sluicegate_downstream_dropped_total{downstream="bank"} 3.0' in text
    assert 'sluicegate_downstream_latency_seconds{downstream="bank",quantile="0.5"} 0.1' in text
    assert 'sluicegate_downstream_gated_seconds{downstream="bank",quantile="0.5"} 1.1' in text
    assert 'sluicegate_downstream_gated_seconds{downstream="bank",quantile="0.99"}' not in text


def test_metrics_of_a_dead_monitor_are_absent_with_a_rising_age(api, frame, gate):
    frame["at_ms"] -= 60_000
    gate.put_frame(json.dumps(frame))
    text = api.client.get("/metrics").content.decode()
    assert "sluicegate_queue_depth" not in text
    age = float(text.split("sluicegate_sampled_age_seconds ")[-1].split()[0])
    assert age >= 60


def test_metrics_from_elsewhere_need_a_key(api, frame):
    client = api.client
    assert client.get("/metrics", REMOTE_ADDR="192.0.2.1").status_code == 401
    assert client.get("/metrics", headers={"X-Forwarded-For": "192.0.2.1"}).status_code == 401
    assert client.get("/metrics", headers=api.headers, REMOTE_ADDR="192.0.2.1").status_code == 200


def test_history_keeps_gaps(api, gate):
    for at_ms in (1_700_000_000_000, 1_700_000_001_000, 1_700_000_060_000):
        Sample.objects.create(step_s=1, at_ms=at_ms, data={"queues": {"bulk": {"depth": 4}}})
    path = "/history?queue=bulk&metric=depth&since=1700000000000&until=1700000060000"
    points = api.get(path).json()["points"]
    assert points == [
        [1_700_000_000_000, 4],
        [1_700_000_001_000, 4],
        [1_700_000_002_000, None],
        [1_700_000_060_000, 4],
    ]
    whole = api.get("/history?all=1&since=1700000000000&until=2023-11-14T22:14:20Z").json()
    assert whole["queues"]["bulk"]["depth"] == [4, 4, 4]
    assert api.get("/history?queue=bulk&metric=luck").json()["field"] == "metric"
    assert api.get("/history?since=yesterday&all=1").json()["field"] == "since"


def test_the_trace_of_a_downstream_s_limit_can_be_read(api, gate):
    bank = {"limit": 4, "in_flight": 3, "mean_ms": None}
    for at_ms, data in (
        (1_700_000_000_000, {"queues": {}}),
        (1_700_000_001_000, {"queues": {}, "downstreams": {"bank": bank}}),
    ):
        Sample.objects.create(step_s=1, at_ms=at_ms, data=data)
    shown = api.get("/history?downstream=bank&since=1700000000000&until=1700000060000").json()
    assert shown["at_ms"] == [1_700_000_000_000, 1_700_000_001_000]
    assert shown["metrics"]["limit"] == [None, 4]
    assert shown["metrics"]["mean_ms"] == [None, None]


def test_the_history_of_many_queues_is_told_in_fewer_points(api, gate, monkeypatch):
    monkeypatch.setattr(history, "MOST_OF_ALL", 12)
    for second in range(10):
        data = {"queues": {f"q{n}": {"depth": second} for n in range(4)}}
        Sample.objects.create(step_s=1, at_ms=1_700_000_000_000 + 1000 * second, data=data)
    Transition.objects.create(
        scope="*", before="normal", after="saturated", by="x", at_ms=1_700_000_001_000, reason="x" * 2000
    )
    whole = api.get("/history?all=1&since=1700000000000&until=1700000009000").json()
    assert whole["step_s"] == 4
    assert whole["queues"]["q3"]["depth"] == [1, 5, 9]
    assert len(whole["transitions"][0]["reason"]) == history.LONGEST_REASON


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/alerts?queue=bluk", "queue"),
        ("/history?metric=depth&queue=bluk", "queue"),
        ("/quarantine?queue=bluk", "queue"),
        ("/transitions?scope=bluk", "scope"),
        ("/mode?queue=bluk", "queue"),
        ("/policies/bluk", "queue"),
        ("/contracts/bluk", "queue"),
    ],
)
def test_a_queue_that_nobody_knows_is_an_error_and_not_an_empty_answer(api, path, field):
    told = api.get(path)
    assert told.status_code in (404, 422)
    assert (told.json()["reason"], told.json()["field"]) == ("unknown_queue", field)
    assert "'bluk'" in told.json()["detail"]
    assert "(known: bulk, critical, normal, urgent)" in told.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("PUT", "/alerts/rules", {"name": "bulk-age", "queue": "bluk"}, "queue"),
        ("PUT", "/mode", {"mode": "normal", "queue": "bluk"}, "queue"),
        ("PUT", "/policies/bluk", {"weight": 1}, "queue"),
        ("POST", "/quarantine/replay", {"filter": {"queue": "bluk"}}, "filter.queue"),
        ("POST", "/quarantine/discard", {"filter": {"queue": "bluk"}}, "filter.queue"),
        (
            "PUT",
            "/policies/bulk",
            {"on_full": "degrade", "degrade_to": "t", "degrade_queue": "bluk"},
            "degrade_queue",
        ),
    ],
)
def test_nothing_is_set_for_a_queue_that_nobody_knows(api, method, path, body, field):
    told = api.ask(method, path, body)
    assert told.status_code in (404, 422)
    assert told.json()["field"] == field
    assert "(known: bulk, critical, normal, urgent)" in told.json()["detail"]


def test_what_outlives_a_queue_s_policy_is_found_by_its_name(api, gate):
    rule = AlertRule.objects.get(name="bulk-age")
    Alert.objects.create(rule=rule, queue="gone", fired_at_ms=1, value=5, threshold=1)
    Transition.objects.create(scope="gone", before="normal", after="saturated", by="x", at_ms=1)
    Sample.objects.create(step_s=1, at_ms=1_700_000_000_000, data={"queues": {"gone": {"depth": 4}}})
    assert len(api.get("/alerts?queue=gone").json()["alerts"]) == 1
    assert len(api.get("/transitions?scope=gone").json()["transitions"]) == 1
    path = "/history?queue=gone&metric=depth&since=1700000000000&until=1700000060000"
    assert api.get(path).json()["points"] == [[1_700_000_000_000, 4]]
    assert api.get("/alerts?queue=bulk").json()["alerts"] == []
    assert api.get("/transitions?scope=*").status_code == 200


def test_a_downstream_that_nobody_knows_is_an_error_too(api, admin_api, gate):
    admin_api.put("/downstreams/bank", {})
    for method, path, body, field in (
        ("GET", "/history?downstream=bnak", None, "downstream"),
        ("GET", "/downstreams/bnak", None, "name"),
        ("DELETE", "/downstreams/bnak", None, "name"),
        ("PUT", "/policies/bulk", {"downstream": "bnak"}, "downstream"),
    ):
        told = api.ask(method, path, body)
        assert (told.status_code in (404, 422), told.json()["field"]) == (True, field)
        assert "There is no downstream 'bnak' (known: bank)." in told.json()["detail"]
    assert api.get("/history?downstream=bank").status_code == 200


WIDE = "\u0800" * 300
#: What makes a row of each long list, told apart by who made it.
MAKERS = {
    "transitions": lambda by: Transition.objects.create(
        scope="*", before="normal", after="saturated", by=by, at_ms=1, reason=WIDE
    ),
    "suspensions": lambda by: Suspension.objects.create(tenant=f"tenant {by}", by=by, reason=WIDE, at_ms=1),
    "keys": lambda by: ApiKey.objects.create(prefix="sg", sha256=by, scopes=["read"], by=by, tasks=[WIDE]),
    "batches": lambda by: ReplayBatch.objects.create(verb="discard", by=by, reason=WIDE),
    "deletions": lambda by: Deletion.objects.create(by=by, reason=WIDE, began_at_ms=1000 + int(by)),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_page_ends_before_it_is_too_large_and_the_rest_is_the_next(admin_api, gate, monkeypatch, name):
    monkeypatch.setattr(paging, "MOST_BYTES", 3000)
    for i in range(9):
        MAKERS[name](str(i))
    seen: list[str] = []
    before = ""
    while True:
        answer = admin_api.get(f"/{name}?limit=5{before}")
        assert answer.status_code == 200, answer.content
        assert len(answer.content.decode()) < 3500
        page = answer.json()
        seen += [row["by"] for row in page[name]]
        if page["next_before"] is None:
            break
        before = f"&before={page['next_before']}"
    assert [by for by in seen if by.isdigit()] == [str(i) for i in range(8, -1, -1)]


def test_the_items_of_a_batch_are_pages_too(admin_api, api, gate, monkeypatch):
    monkeypatch.setattr(paging, "MOST_BYTES", 3000)
    batch = ReplayBatch.objects.create(verb="replay", by="x", total=9)
    for number in range(9):
        tenant = "default" if number % 2 else "other"
        job = QuarantinedJob.objects.create(
            op_id=f"j{number}", queue="bulk", reason="failed", tenant=tenant, quarantined_at_ms=1
        )
        ReplayItem.objects.create(batch=batch, job=job, detail=WIDE)

    def read(caller, most):
        seen, before = [], ""
        while before is not None:
            answer = caller.get(f"/batches/{batch.pk}?limit={most}{before}")
            assert len(answer.content.decode()) < 4500
            page = answer.json()
            seen += [item["operation_id"] for item in page["items"]]
            before = f"&before={page['next_before']}" if page["next_before"] is not None else None
        return seen

    assert read(admin_api, 5) == [f"j{number}" for number in range(8, -1, -1)]
    assert read(api, 2) == ["j7", "j5", "j3", "j1"]  # its own tenant's


def test_half_a_character_that_was_kept_takes_no_list_along(admin_api, gate):
    if connection.vendor != "sqlite":
        pytest.skip("this database keeps none")
    row = PolicyVersion.objects.get(queue="bulk")
    row.fields["owner"] = "night\udcff"
    row.save()
    JournalEntry.objects.create(actor="a", via="cli", verb="change_policy", outcome="done", after=row.fields)
    assert admin_api.get("/journal").json()["entries"][0]["after"]["owner"] == "night?"
    assert "night?" in str(admin_api.get("/policies").json())
    assert admin_api.get("/policies/bulk").json()["owner"] == "night?"


@pytest.mark.parametrize("name", MAKERS)
def test_a_cursor_from_nowhere_is_answered(admin_api, gate, name):
    MAKERS[name]("1")
    for before, found in (("9" * 30, True), ("-1", False)):
        page = admin_api.get(f"/{name}?before={before}").json()
        assert (bool(page[name]), page["next_before"]) == (found, None)


def test_of_the_suspended_a_key_sees_and_counts_its_own_tenant_only(api, gate):
    for tenant in ("default", "other"):
        Suspension.objects.create(tenant=tenant, by="x", at_ms=1)
    page = api.get("/suspensions").json()
    assert ([row["tenant"] for row in page["suspensions"]], page["count"]) == (["default"], 1)


def test_of_a_body_of_unknown_names_the_first_are_told(api, gate):
    body = {"task": "drill.echo", **{f"n{i}": 1 for i in range(50_000)}}
    answer = api.post("/jobs", body)
    assert (answer.status_code, answer.json()["field"]) == (422, "n0")
    assert len(answer.json()["errors"]) == 10


def test_transitions_and_journal_page_from_the_newest(api, gate):
    for i in range(5):
        Transition.objects.create(scope="*", before="normal", after="saturated", by="x", at_ms=i)
    first = api.get("/transitions?limit=3").json()
    assert [row["at_ms"] for row in first["transitions"]] == [4, 3, 2]
    rest = api.get(f"/transitions?limit=3&before={first['next_before']}").json()
    assert [row["at_ms"] for row in rest["transitions"]] == [1, 0]
    assert api.get("/journal?limit=1").json()["entries"]
    assert api.get("/journal?limit=abc").status_code == 422


def test_openapi_describes_every_route(api):
    document = api.client.get("/api/v1/openapi.json").json()
    paths = {path.removeprefix("/api/v1") for path in document["paths"]}
    assert paths >= {
        "/jobs",
        "/jobs/bulk",
        "/jobs/{operation_id}",
        "/queues",
        "/history",
        "/mode",
        "/policies/{queue}",
        "/quarantine",
        "/quarantine/{operation_id}",
        "/quarantine/replay",
        "/quarantine/discard",
        "/alerts",
        "/alerts/rules",
        "/alerts/{alert_id}/acknowledge",
        "/contracts/{queue}",
        "/journal",
        "/transitions",
        "/tenants",
        "/workers",
        "/batches/{batch_id}",
        "/keys",
    }
    submit = document["paths"]["/api/v1/jobs"]["post"]
    assert set(submit["responses"]) >= {"202", "400", "401", "403", "409", "413", "422", "429", "503"}
    assert list(submit["responses"]["415"]["headers"]) == ["Accept-Encoding"]
    assert "415" not in document["paths"]["/api/v1/queues"]["get"]["responses"]
    assert submit["security"]
    assert list(submit["responses"]["429"]["content"]) == ["application/problem+json"]
    assert "Retry-After" in submit["responses"]["429"]["headers"]


@pytest.mark.parametrize(
    ("address", "template"),
    [
        ("/", "room.html"),
        ("/queues/", "pages/queues.html"),
        ("/jobs/", "pages/jobs.html"),
        ("/quarantine/", "pages/quarantine.html"),
        ("/alerts/", "pages/alerts.html"),
        ("/audit/", "pages/journal.html"),
        ("/policies/", "pages/policies.html"),
        ("/contracts/", "pages/contracts.html"),
        ("/workers/", "pages/workers.html"),
        ("/tenants/", "pages/tenants.html"),
        ("/downstreams/", "pages/downstreams.html"),
    ],
)
def test_each_page_renders_for_a_viewer_and_asks_nobody_in(logged_in, client, address, template):
    answer = logged_in("viewer").client.get(address)
    assert answer.status_code == 200
    assert template in [used.name for used in answer.templates]
    assert client.get(address).status_code == 302


def test_an_unknown_address_is_a_problem_document(api):
    answer = api.get("/nowhere")
    assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")
