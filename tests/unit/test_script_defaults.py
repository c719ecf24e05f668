"""Do the scripts take, where a policy leaves a field out, what the store thinks that they take?"""

from __future__ import annotations

import re

import pytest

from workers.store.commands import SCRIPT_DEFAULTS
from workers.store.scripts import LUA_DIR

LUA = "\n".join(path.read_text() for path in sorted(LUA_DIR.rglob("*.lua")))
#: Fields that are compared with one other value only, so that none and the default are the same.
COMPARED = {"order", "admit_while_draining", "payload_class"}


@pytest.mark.parametrize("name", SCRIPT_DEFAULTS.keys() - COMPARED)
def test_a_field_left_out_means_its_default(name: str) -> None:
    found = re.findall(rf"\b{name} or ('\w+'|[\d.]+)", LUA)
    assert found, f"no script gives {name} a default"
    default = SCRIPT_DEFAULTS[name]
    wanted = repr(default) if isinstance(default, str) else float(default)
    assert {word if word.startswith("'") else float(word) for word in found} == {wanted}


@pytest.mark.parametrize("name", ["order", "admit_while_draining"])
def test_a_field_that_is_compared_is_never_compared_with_its_default(name: str) -> None:
    found = set(re.findall(rf"\b{name} [=~]= ('\w+'|\d+)", LUA))
    default = SCRIPT_DEFAULTS[name]
    assert found
    assert (repr(default) if isinstance(default, str) else str(int(default))) not in found
