"""Does a module that imports the gate as a project does get the gate of this process?"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from config.env import WrongSetting, read_environment


def test_both_names_are_the_same_modules() -> None:
    sluicegate = importlib.import_module("sluicegate")
    delivery = importlib.import_module("sluicegate.transport.delivery")
    here = importlib.import_module("workers.transport.delivery")
    assert sluicegate is importlib.import_module("workers")
    assert delivery is here
    assert here.__spec__ is not None and here.__spec__.name == "workers.transport.delivery"
    namespace: dict[str, object] = {}
    lines = "from sluicegate import AdmissionRefused\nfrom sluicegate.transport import delivery"
    exec(lines, namespace)  # noqa: S102 - as README and docs/policies.md write them
    assert namespace["delivery"] is here and namespace["AdmissionRefused"] is sluicegate.AdmissionRefused


def test_a_module_that_is_not_on_the_path_is_told_with_the_fix(tmp_path: Path) -> None:
    environ = {"SLUICEGATE_DATA_DIR": str(tmp_path)}
    known = read_environment({**environ, "SLUICEGATE_IMPORTS": "tests.field.shop"})
    assert known.imports == ["tests.field.shop"]
    with pytest.raises(WrongSetting, match=r"not on the path, nowhere; .*PYTHONPATH="):
        read_environment({**environ, "SLUICEGATE_IMPORTS": "json, nowhere"})
