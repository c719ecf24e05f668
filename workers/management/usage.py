"""What is said where a command's words do not fit? One line: which word, what would do, where more is."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from django.core.management import base

from ..actions.naming import find_nearest

#: argparse speaks of Python's types; whoever typed the word does not know of them.
SAID: Final = (
    (re.compile(r"invalid int value: (.*)"), r"\1 is not a whole number"),
    (re.compile(r"invalid float value: (.*)"), r"\1 is not a number"),
    (re.compile(r"invalid choice: (.*?) \(choose from (.*)\)"), r"\1 is none of \2"),
    (re.compile(r"expected (one|at least one) argument"), r"needs \1 value"),
)
MISSING: Final = re.compile(r"the following arguments are required: (.*)")
UNKNOWN: Final = re.compile(r"unrecognized arguments: (\S+)")


def find_unreadable(words: Sequence[str]) -> str | None:
    """What is wrong with a command line that holds bytes of no text: no name or reason could keep them."""
    for place, word in enumerate(words):
        try:
            word.encode()
        except UnicodeEncodeError:
            shown = word.encode("utf-8", "replace").decode()
            return f"word {place} of the command line, {shown[:60]!r}, is not UTF-8"
    return None


def at_least(low: float, *, whole: bool = False) -> Callable[[str], float]:
    """For an option's ``type``. To Python nan and inf are numbers too; a rate or a time they are not."""

    def read(text: str) -> float:
        try:
            number = int(text) if whole else float(text)
        except ValueError:
            number = math.nan
        if not abs(number) < math.inf:
            raise argparse.ArgumentTypeError(f"{text!r} is not a {'whole ' if whole else ''}number")
        if number < low:
            raise argparse.ArgumentTypeError(f"must be at least {low:g}, not {text}")
        return number

    return read


NUMBER, COUNT, SOME = at_least(0), at_least(0, whole=True), at_least(1, whole=True)


class OneLineParser(base.CommandParser):
    """Django's, which prints neither the usage of forty options nor any other line beside the fault."""

    def error(self, message: str) -> None:
        if self.called_from_command_line:
            self.exit(2, f"{self.prog}: {self._say(message)}; see {self.prog} --help\n")
        super().error(message)

    def _say(self, message: str) -> str:
        for found, said in SAID:
            message = found.sub(said, message)
        missing = MISSING.match(message)
        if missing:
            return f"give {', '.join(self._call(name) for name in missing.group(1).split(', '))}"
        unknown = UNKNOWN.match(message)
        if unknown:
            word = unknown.group(1)
            near = find_nearest(word.partition("=")[0], set(_options(self)), most=1)
            message = f"{word} is not known" + (f"; nearest: {near[0]}" if near else "")
        return message.removeprefix("argument ")

    def _call(self, name: str) -> str:
        """An argument that is missing, with the words that it takes where they are few."""
        words = next((action.choices for action in self._actions if action.dest == name), None)
        return f"{name} ({', '.join(map(str, words))})" if words else name


def speak_in_one_line() -> None:
    """For every command that is run from here on; Django makes their parsers by this name."""
    base.CommandParser = OneLineParser


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The options of a command and of its verbs."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                yield from _options(verb)
