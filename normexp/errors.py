"""Errors that the user can fix, and the exit codes of the program."""

from __future__ import annotations

from collections.abc import Sequence

EXIT_OK = 0
EXIT_RUNS_FAILED = 1
EXIT_USAGE = 2
EXIT_VERDICT_DIFFERS = 3


class UserError(Exception):
    """Invalid input. Carries every problem at once, one line each; the program exits with code 2.

    Messages may quote arbitrary input, so unprintable characters are escaped.
    """

    def __init__(self, *complaints: str) -> None:
        self.complaints: Sequence[str] = tuple(map(printable, complaints))
        super().__init__("\n".join(self.complaints))


class ConfigWarning(UserWarning):
    """Valid input that is probably not what the user meant."""


def at_most(texts: Sequence[str], most: int, more: str = "and {} more") -> list[str]:
    """Return the first `most` texts, followed by the number of the remaining ones."""
    rest = len(texts) - most
    return list(texts) if rest <= 0 else [*texts[:most], more.format(rest)]


def printable(text: str) -> str:
    """Return the text on one line, with unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
