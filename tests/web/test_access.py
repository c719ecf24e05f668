"""Who may do what? Each action by nobody, each role, each scope, and with each way of cheating."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from workers.models import ApiKey, JournalEntry

from .conftest import PASSWORD, Api

ACTIONS = [
    ("PUT", "/mode", {"mode": "saturated", "reason": "r"}, 200),
    ("PUT", "/policies/bulk", {"max_count": 77}, 200),
    ("POST", "/quarantine/replay", {"filter": {"queue": "bulk"}}, 200),
    ("POST", "/quarantine/discard", {"filter": {"queue": "bulk"}}, 200),
    ("PUT", "/alerts/rules", {"name": "bulk-age", "threshold": 700}, 200),
    ("POST", "/alerts/1/acknowledge", {}, 404),
    ("POST", "/alerts/1/snooze", {"for_s": 60}, 404),
    ("POST", "/jobs", {"task": "drill.echo", "args": [1]}, 202),
    ("DELETE", "/jobs/nope", None, 404),
]
IDS = [f"{method} {path}" for method, path, *_ in ACTIONS]
READS = [
    "/queues",
    "/mode",
    "/policies",
    "/policies/bulk",
    "/contracts/bulk",
    "/quarantine",
    "/alerts",
    "/alerts/rules",
    "/journal",
    "/transitions",
    "/tenants",
    "/workers",
    "/batches",
    "/history?all=1",
    "/jobs/nope",
]


@pytest.mark.parametrize(("method", "path", "body", "status"), ACTIONS, ids=IDS)
class TestActions:
    def test_nobody_is_told_to_log_in(self, gate, method, path, body, status):
        answer = Api(None).ask(method, path, body)
        assert answer.status_code == 401
        assert answer["WWW-Authenticate"].startswith("Bearer")
        assert answer.json()["reason"] == "unauthorized"

    def test_a_viewer_is_refused(self, logged_in, method, path, body, status):
        assert logged_in("viewer").ask(method, path, body).status_code == 403

    def test_an_operator_may(self, logged_in, method, path, body, status):
        assert logged_in("operator").ask(method, path, body).status_code == status

    def test_an_operator_without_a_token_is_refused(self, logged_in, method, path, body, status):
        answer = logged_in("operator", token=False).ask(method, path, body)
        assert (answer.status_code, answer.json()["reason"]) == (403, "csrf")

    def test_an_operator_from_another_origin_is_refused(self, logged_in, method, path, body, status):
        answer = logged_in("operator").ask(method, path, body, Origin="https://evil.example")
        assert (answer.status_code, answer.json()["reason"]) == (403, "csrf")

    def test_an_operator_behind_a_tls_proxy_is_not_refused(self, logged_in, method, path, body, status):
        answer = logged_in("operator").ask(
            method, path, body, Origin="https://testserver", X_Forwarded_Proto="https"
        )
        assert answer.status_code == status

    def test_one_demoted_a_second_ago_is_refused(self, logged_in, users, method, path, body, status):
        session = logged_in("operator")
        users["operator"].groups.set([Group.objects.get(name="viewer")])
        assert session.ask(method, path, body).status_code == 403

    def test_one_deactivated_is_told_to_log_in(self, logged_in, users, method, path, body, status):
        session = logged_in("operator")
        users["operator"].is_active = False
        users["operator"].save()
        assert session.ask(method, path, body).status_code == 401

    def test_an_ended_session_is_told_to_log_in(self, logged_in, method, path, body, status):
        session = logged_in("operator")
        session.client.session.flush()
        assert session.ask(method, path, body).status_code == 401

    def test_a_key_that_only_reads_is_refused(self, key_for, method, path, body, status):
        assert key_for("read").ask(method, path, body).status_code == 403

    def test_an_unknown_key_is_refused_even_with_a_session(self, logged_in, method, path, body, status):
        answer = logged_in("operator").ask(method, path, body, Authorization="Bearer wrong")
        assert answer.status_code == 401


@pytest.mark.parametrize(
    "path", ["/quarantine/replay", "/quarantine/discard", "/alerts/1/acknowledge", "/jobs/bulk"]
)
def test_get_for_post_is_refused(logged_in, path):
    answer = logged_in("operator").get(path)
    assert answer.status_code in (404, 405)
    assert answer["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("path", READS)
def test_reading_needs_the_right_to_read(gate, frame, logged_in, key_for, path):
    assert Api(None).get(path).status_code == 401
    assert key_for("submit").get(path).status_code == (404 if path == "/jobs/nope" else 403)
    expected = 404 if path == "/jobs/nope" else 200
    assert logged_in("viewer").get(path).status_code == expected


@pytest.mark.database
def test_refused_actions_are_in_the_journal(logged_in, gate):
    logged_in("viewer").put("/mode", {"mode": "draining"})
    logged_in("operator", token=False).put("/mode", {"mode": "draining"})
    Api(None).put("/mode", {"mode": "draining"})
    refused = JournalEntry.objects.filter(outcome="refused", target="/api/v1/mode")
    assert set(refused.values_list("actor", "reason")) == {
        ("a-viewer", "forbidden"),
        ("a-operator", "csrf"),
        ("nobody", "unauthorized"),
    }


@pytest.mark.database
def test_a_revoked_key_opens_nothing(key_for, admin_api):
    caller = key_for("read", label="soon gone")
    assert caller.get("/mode").status_code == 200
    row = ApiKey.objects.get(label="soon gone")
    assert admin_api.delete(f"/keys/{row.pk}").status_code == 200
    assert caller.get("/mode").status_code == 401


@pytest.mark.database
def test_keys_are_made_by_admins_only_and_shown_once(api, admin_api, logged_in):
    assert api.post("/keys", {"scopes": ["read"]}).status_code == 403
    assert logged_in("operator").get("/keys").status_code == 403
    made = admin_api.post("/keys", {"scopes": ["read"], "tenant": "t", "tasks": ["a.*"]})
    assert made.status_code == 201
    key = made.json()["key"]
    assert key not in admin_api.get("/keys").content.decode()
    assert not ApiKey.objects.filter(sha256=key).exists()
    assert Api(key).get("/mode").status_code == 200
    for body, field in (
        ({"scopes": ["root"]}, "scopes"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["read"], "tasks": ["<"]}, "tasks"),
    ):
        answer = admin_api.post("/keys", body)
        assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_a_key_that_only_reads_does_not_see_other_tenants(key_for, frame):
    key = key_for("read", tenant="default")
    seen = key.get("/queues").content.decode()
    assert "other-tenant" not in seen and "secret" not in seen
    assert [row["tenant"] for row in key.get("/tenants").json()["tenants"]] == ["default"]


@pytest.mark.database
def test_logging_in_and_out(users):
    client = Client(enforce_csrf_checks=True)
    assert client.get("/").headers["Location"] == "/login/?next=/"
    page = client.get("/login/?next=/audit/")
    assert page.status_code == 200
    token = client.cookies["sluicegate_csrf"].value
    form = {"username": "a-operator", "password": PASSWORD, "next": "/audit/", "csrfmiddlewaretoken": token}
    assert client.post("/login/", {**form, "csrfmiddlewaretoken": "x"}).status_code == 403
    assert client.post("/login/", {**form, "password": "wrong"}).status_code == 401
    answer = client.post("/login/", form, headers={"Origin": "https://testserver"})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/audit/")
    assert client.get("/logout/").status_code == 405
    client.get("/")
    token = client.cookies["sluicegate_csrf"].value
    assert client.post("/logout/", {"csrfmiddlewaretoken": token}).status_code == 302
    assert client.get("/").status_code == 302


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "/\\evil"]
)
def test_login_leads_to_this_site_only(users, target):
    client = Client()
    answer = client.post("/login/", {"username": "a-viewer", "password": PASSWORD, "next": target})
    assert answer.headers["Location"] == "/"


@pytest.mark.database
def test_guessing_passwords_is_slowed_down(users):
    client = Client()
    form = {"username": "a-viewer", "password": "wrong"}
    answers = [client.post("/login/", form).status_code for _ in range(11)]
    assert answers == [401] * 10 + [429]
    blocked = client.post("/login/", {**form, "password": PASSWORD})
    assert blocked.status_code == 429 and int(blocked["Retry-After"]) >= 1
    JournalEntry.objects.filter(verb="log_in").update(at=timezone.now() - timedelta(minutes=6))
    assert client.post("/login/", {**form, "password": PASSWORD}).status_code == 302


@pytest.mark.parametrize(
    "address", ["/", "/login/", "/static/css/base.css", "/healthz", "/api/v1/openapi.json", "/nowhere"]
)
def test_every_answer_has_a_strict_policy(logged_in, address):
    answer = logged_in("viewer").client.get(address)
    policy = answer["Content-Security-Policy"]
    assert "unsafe" not in policy and "default-src 'none'" in policy
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["X-Frame-Options"] == "DENY"
