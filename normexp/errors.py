"""Faults that the user can mend, and the exit codes of the program."""

from __future__ import annotations

from collections.abc import Sequence

EXIT_OK = 0
EXIT_RUNS_FAILED = 1
EXIT_USAGE = 2
EXIT_VERDICT_DIFFERS = 3


class UserError(Exception):
    """Input that the user must mend: every complaint at once, one line each; the program exits with 2.

    What they quote may hold anything: characters that cannot be printed are escaped.
    """

    def __init__(self, *complaints: str) -> None:
        self.complaints: Sequence[str] = tuple(map(printable, complaints))
        super().__init__("\n".join(self.complaints))


class ConfigWarning(UserWarning):
    """Input that is valid, but perhaps not what was meant."""


def at_most(texts: Sequence[str], most: int, more: str = "and {} more") -> list[str]:
    """The first of many texts, and how many more there are."""
    rest = len(texts) - most
    return list(texts) if rest <= 0 else [*texts[:most], more.format(rest)]


def printable(text: str) -> str:
    """The text on one line, with control characters and the like as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
