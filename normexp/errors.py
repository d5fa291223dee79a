"""Faults that the user can mend, and the exit codes of the program."""

from __future__ import annotations

from collections.abc import Sequence

EXIT_OK = 0
EXIT_RUNS_FAILED = 1
EXIT_USAGE = 2
EXIT_VERDICT_DIFFERS = 3
EXIT_SIGINT = 130
EXIT_SIGTERM = 143


class UserError(Exception):
    """Input that the user must mend: every complaint at once, one line each; the program exits with 2."""

    def __init__(self, *complaints: str) -> None:
        super().__init__("\n".join(complaints))
        self.complaints: Sequence[str] = complaints
