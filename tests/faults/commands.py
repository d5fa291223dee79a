"""Run the program in this process, which is faster. Uncaught exceptions fail the test."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from nursery import Ended, drop_capabilities

from normexp.commands import app
from normexp.execution.executors import EXECUTORS


def program(
    *argv: str, cwd: Path, figures: bool = False, obeys_modes: bool = False, clock: float | None = None
) -> Ended:
    """Run `normexp ARGV`. With `obeys_modes` root has no privilege; the clock goes `clock` s back at each reading."""
    ends: list[Ended | BaseException] = []

    def run() -> None:
        try:
            if obeys_modes:
                drop_capabilities()
            ends.append(_run(argv))
        except BaseException as fault:
            ends.append(fault)

    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(cwd))
        stack.enter_context(mock.patch.dict(EXECUTORS, processes=EXECUTORS["inline"]))
        if not figures:
            stack.enter_context(mock.patch("normexp.report.report.write_figures"))
        if clock is not None:
            stack.enter_context(mock.patch("time.time", _backwards(clock).__next__))
        if obeys_modes:
            thread = threading.Thread(target=run)  # capabilities are those of a thread
            thread.start()
            thread.join()
        else:
            run()
    if isinstance(ends[0], BaseException):
        raise ends[0]
    return ends[0]


def _run(argv: tuple[str, ...]) -> Ended:
    out, err, before, start = io.StringIO(), io.StringIO(), sys.argv, time.monotonic()
    sys.argv = ["normexp", *argv]
    code: Any = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            app.main()
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv = before
    return Ended(code=code, seconds=time.monotonic() - start, operations=0, out=out.getvalue(), err=err.getvalue())


def _backwards(step: float) -> Iterator[float]:
    now = time.time()
    while True:
        now -= step
        yield now
