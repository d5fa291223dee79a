"""The program as users start it, in a process of its own or in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


def main(arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """The program in this process, for speed."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["normexp", *arguments])
    with pytest.raises(SystemExit) as end:
        app.main()
    return int(end.value.code or 0)
