"""Start the program as users do, in a separate process or in this one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

from normexp.commands import app

PROGRAM = [sys.executable, "-m", "normexp"]
TINY = "base: {depth: 1, width: 8, hidden: 8, heads: 2, vocab: 8, batch: 4, steps: 3, eval_every: 2}\n"


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def run_ids(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "results" / "tiny" / "runs").iterdir())


class Done(NamedTuple):
    """Exit code and output of the program."""

    code: int
    out: str
    err: str


def invoke(*arguments: object, cwd: Path | None = None) -> Done:
    """Run the program in this process, which is faster."""
    output, errors = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(cwd or Path.cwd()):
        patch.setattr(sys, "argv", ["normexp", *map(str, arguments)])
        streams = contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors)
        with streams[0], streams[1], pytest.raises(SystemExit) as end:
            app.main()
    return Done(int(end.value.code or 0), output.getvalue(), errors.getvalue())


def main(arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the program in this process and return its exit code. Its output can be captured."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["normexp", *arguments])
    with pytest.raises(SystemExit) as end:
        app.main()
    return int(end.value.code or 0)
