"""What must be there before the first job: policies, modes, rules, a user and a key?

Everything here may run again at any time, and by several processes: it adds what is missing and
leaves alone what is there.
"""

from __future__ import annotations

import logging
import tomllib
from dataclasses import dataclass, field
from typing import Final

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction

from ..admission.policy import load_shipped
from ..metrics.loss import from_figures
from ..models import AlertRule, ApiKey, PolicyVersion, Sample, Transition
from ..store import Store
from . import change_alert_rule, create_key, create_user, name_server, note_loss
from .actor import ROLES, Actor
from .authority import sync_authority
from .change_policy import newest_versions
from .downstreams import newest_versions as newest_downstreams
from .gate import redis_now_ms

log = logging.getLogger(__name__)

INSTALLER: Final = Actor("installation", "admin", "cli")
DEFAULT_SCOPES: Final = ["submit", "read", "operate"]


@dataclass(slots=True)
class Restored:
    """What had to be put (back) into Redis; empty in the usual case."""

    policies: list[str] = field(default_factory=list)
    downstreams: list[str] = field(default_factory=list)
    modes: list[str] = field(default_factory=list)
    authority: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.policies or self.downstreams or self.modes or self.authority)


@dataclass(slots=True)
class Made:
    """What had to be added to the database; empty in the usual case."""

    roles: list[str] = field(default_factory=list)
    policies: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    user: bool = False  # the first one was made, or got the password that the settings name
    key: bool = False


def prepare_database() -> Made:
    """Shipped policies and rules, groups, the first user and the first key. Needs no Redis."""
    roles = [role for role in ROLES if create_user.make_group(role)]
    return Made(roles, _load_policies(), _load_rules(), _first_user(), _first_key())


def has_users() -> bool:
    return bool(get_user_model().objects.exists())


def restore_gate(store: Store) -> Restored:
    """Publishes what Redis lacks or has in an older version: after a first start, and after it lost data."""
    restored = Restored()
    published = store.read_policies()
    if not published and not store.read_modes() and not name_server.execute():
        _note_if_lost(redis_now_ms(store))
    for queue, row in newest_versions().items():
        if published.get(queue, {}).get("version", 0) < row.version:
            store.publish_policy(queue, row.fields, version=row.version)
            restored.policies.append(queue)
    made = store.read_downstreams()
    for name, version in newest_downstreams().items():
        if version.fields is None:
            if name in made:
                store.remove_downstream(name)
        elif made.get(name, {}).get("version", 0) < version.version:
            store.publish_downstream(name, version.fields, version=version.version)
            restored.downstreams.append(name)
    modes = store.read_modes()
    now_ms = redis_now_ms(store)
    for row in _standing_modes(now_ms):
        if row.scope in modes:
            continue
        until_at_ms = int(row.until) if row.until.isdigit() else None
        store.set_mode(
            row.scope,
            row.after,
            by=row.by,
            reason=row.reason,
            until_at_ms=until_at_ms,
            until="drained" if row.until == "drained" else None,
            pinned=row.pinned,
            automatic=row.automatic,
        )
        restored.modes.append(row.scope)
    if "*" not in modes and "*" not in restored.modes:
        store.set_mode("*", "normal", by="installation", reason="first start", automatic=True)
        restored.modes.append("*")
    restored.authority = sync_authority(store)
    store.write_settings({"retention_s": settings.SLUICEGATE_RETENTION_S})
    if restored:
        log.info(
            "published to Redis: policies %s, downstreams %s, modes %s",
            restored.policies,
            restored.downstreams,
            restored.modes,
        )
        for what in restored.authority:
            log.info("%s", what)
    return restored


def _note_if_lost(now_ms: int) -> None:
    """A server that knows nothing of a gate that was sampled before, by the same name, has lost its data."""
    last = Sample.objects.filter(at_ms__lte=now_ms).order_by("-at_ms").first()
    if last is not None:
        note_loss.execute(
            from_figures(last.data.get("queues") or {}, last_seen_at_ms=last.at_ms, found_at_ms=now_ms)
        )


def _standing_modes(now_ms: int) -> list[Transition]:
    """The newest transition of each scope, where it left the scope in another mode than normal."""
    standing = []
    for scope in Transition.objects.order_by().values_list("scope", flat=True).distinct():
        row = Transition.objects.filter(scope=scope).order_by("-at_ms", "-id").first()
        if row is None or row.after in ("normal", "failed"):
            continue
        if row.until.isdigit() and int(row.until) <= now_ms:
            continue
        standing.append(row)
    return standing


def _load_policies() -> list[str]:
    added = []
    present = set(PolicyVersion.objects.order_by().values_list("queue", flat=True).distinct())
    for queue, policy in load_shipped(settings.SLUICEGATE_POLICIES_FILE).items():
        if queue in present:
            continue
        try:
            with transaction.atomic():
                PolicyVersion.objects.create(
                    queue=queue,
                    version=1,
                    fields=policy.as_fields(),
                    by=INSTALLER.name,
                    reason="shipped default",
                )
            added.append(queue)
        except IntegrityError:
            pass  # another process was first
    return added


def _load_rules() -> list[str]:
    if AlertRule.objects.exists():
        return []  # a rule that somebody removed stays removed
    with open(settings.SLUICEGATE_ALERTS_FILE, "rb") as file:
        rules = tomllib.load(file)
    for name, changes in rules.items():
        change_alert_rule.execute(INSTALLER, name=name, changes=changes, reason="shipped default")
    return list(rules)


def _first_user() -> bool:
    password = settings.SLUICEGATE_OPERATOR_PASSWORD
    if not password:
        return False
    user = get_user_model().objects.filter(username="operator").first()
    if user is not None and user.check_password(password):
        return False
    role = user.groups.filter(name__in=ROLES).values_list("name", flat=True).first() if user else None
    create_user.execute(
        INSTALLER,
        name="operator",
        role=role or "operator",
        password=password,
        change=True,
        check_password=False,
    )
    return True


def _first_key() -> bool:
    key = settings.SLUICEGATE_API_KEY
    if not key or ApiKey.objects.filter(sha256=create_key.digest(key)).exists():
        return False
    create_key.execute(
        INSTALLER, tenant="default", scopes=DEFAULT_SCOPES, key=key, label="SLUICEGATE_API_KEY"
    )
    return True
