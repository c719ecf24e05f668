"""Do the migrations form one line, and do they say all that the models say?"""

from __future__ import annotations

from django.apps import apps
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState


def test_the_migrations_have_one_end_and_leave_nothing_out() -> None:
    loader = MigrationLoader(None)
    assert loader.detect_conflicts() == {}
    detector = MigrationAutodetector(loader.project_state(), ProjectState.from_apps(apps))
    assert not detector.changes(loader.graph)
