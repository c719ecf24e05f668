"""Is a command whose words do not fit answered in one line that names the word and what would do?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from tests.support.stack import ROOT, clean_environment
from workers.management.usage import OneLineParser

OWN = sorted(name for name, app in get_commands().items() if app == "workers")


def say(name: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command line says that ends in an error of its words."""
    command = load_command_class("workers", name)
    command._called_from_command_line = True
    parser = command.create_parser("manage.py", name)
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(words)
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    return told.err


@pytest.fixture(autouse=True)
def one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.core.management.base.CommandParser", OneLineParser)


@pytest.mark.parametrize("name", OWN)
def test_every_command_tells_of_a_word_that_it_does_not_know_in_one_line(name, capsys):
    told = say(name, ["--verbosity", "loud"], capsys)
    assert (
        told
        == f"manage.py {name}: -v/--verbosity: 'loud' is not a whole number; see manage.py {name} --help\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["flood", "--rate", "many"], "flood: --rate: 'many' is not a number; see manage.py flood --help"),
        (["flood", "--rate", "nan"], "flood: --rate: 'nan' is not a number; see"),
        (["flood", "--rate", "inf"], "flood: --rate: 'inf' is not a number; see"),
        (["flood", "--deadline-s", "nan"], "flood: --deadline-s: 'nan' is not a number; see"),
        (["flood", "--count=-5"], "flood: --count: must be at least 0, not -5; see"),
        (["flood", "--senders", "1.5"], "flood: --senders: '1.5' is not a whole number; see"),
        (["simulate", "--offered", "nan"], "simulate: --offered: 'nan' is not a number; see"),
        (["flood", "--count"], "flood: --count: needs one value;"),
        (["flood", "--raet", "5"], "flood: --raet is not known; nearest: --rate;"),
        (["flood", "--polite", "--rude"], "flood: --rude: not allowed with argument --polite;"),
        (["mode"], "mode: give verb (show, set);"),
        (["mode", "shwo"], "mode: verb: 'shwo' is none of "),
        (
            ["mode", "set"],
            "mode set: give mode (normal, saturated, draining), --reason; see manage.py mode set ",
        ),
        (["mode", "set", "normal", "--reason", " "], "mode set: --reason: say why:"),
        (
            ["mode", "set", "normal", "--resaon=x", "--reason", "r"],
            "mode: --resaon=x is not known; nearest: --reason;",
        ),
        (["policy", "set", "bulk"], "policy set: give FIELD=VALUE, --reason;"),
        (["apikey", "create", "--scopes"], "apikey create: --scopes: needs at least one value;"),
        (
            ["downstream", "set", "bank", "--max", "x", "--reason", "r"],
            "downstream set: --max: 'x' is not a whole",
        ),
        (["bench", "--only", "all"], "bench: --only: 'all' is none of "),
    ],
)
def test_the_word_at_fault_is_named_with_what_would_do(words, said, capsys):
    told = say(words[0], words[1:], capsys)
    assert told.startswith(f"manage.py {said}")
    assert told.endswith(" --help\n") and told.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["flood", "--raet", "5"], "flood: --raet is not known; nearest: --rate; see manage.py flood --help"),
        (["tenant", "suspend", b"a\xff"], "word 3 of the command line, 'a?', is not UTF-8"),
    ],
    ids=["an option", "bytes"],
)
def test_manage_py_itself_says_so(tmp_path: Path, words: list[str | bytes], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=ROOT,
        env=clean_environment({"SLUICEGATE_DATA_DIR": str(tmp_path), "PATH": os.environ["PATH"]}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("manage.py") and done.stderr.endswith(f" {said}\n")
    assert done.stderr.count("\n") == 1
