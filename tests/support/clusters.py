"""A dask scheduler and its workers in processes of their own, on loopback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from patience import wait_until

HERE = Path(__file__).parent
DASK = [sys.executable, "-m", "dask.__main__"]
MARK = "NORMEXP_TEST_CLUSTER"


class Cluster:
    """`processes` finds all that were started by scheduler, workers, or with its `environment`, wherever they are."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder = folder
        self._mark = uuid.uuid4().hex
        path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        self.environment = {**os.environ, MARK: self._mark, "PYTHONPATH": path}
        self.workers: list[subprocess.Popen[bytes]] = []
        log = self._folder / "scheduler.log"
        arguments = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", *options]
        self.scheduler = self._start(arguments, log)
        self.address = _wait_for(log, re.compile(r"(tcp://127\.0\.0\.1:\d+)"))

    def _start(self, arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
        with log.open("wb") as file:
            return subprocess.Popen(
                [*DASK, *arguments],
                env=self.environment,
                stdout=file,
                stderr=file,
                cwd=self._folder,
                start_new_session=True,
            )

    def add_worker(self, *options: str) -> subprocess.Popen[bytes]:
        """Start a worker of one thread, without waiting for it."""
        arguments = ["worker", self.address, "--nthreads", "1", "--no-dashboard", *options]
        worker = self._start(arguments, self._folder / f"worker{len(self.workers)}.log")
        self.workers.append(worker)
        return worker

    def wait_for_workers(self, count: int) -> None:
        """Until exactly so many are with the scheduler."""
        import distributed

        client_of: Any = distributed.Client
        with client_of(self.address, set_as_default=False) as client:
            wait_until(lambda: len(client.nthreads()) == count, self.logs)

    def logs(self) -> str:
        """What all of them printed."""
        return "\n".join(path.read_text("utf-8", "replace") for path in sorted(self._folder.glob("*.log")))

    def processes(self, *words: str) -> list[int]:
        """The living ones whose command has all the words."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                marked = f"{MARK}={self._mark}".encode() in (folder / "environ").read_bytes()
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                command = (folder / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if marked and state not in "ZX" and all(word in command for word in words):
                found.append(int(folder.name))
        return found

    def wait_until_no_run(self) -> None:
        """Until hosts, if there are any, do nothing: beside each is its fork server, and none that was forked."""
        wait_until(lambda: len(self.processes("forkserver")) <= len(self.processes("normexp.execution.dask.host")))

    def wait_until_gone(self, *words: str) -> None:
        """Until none of `processes(*words)` is there."""
        wait_until(
            lambda: not self.processes(*words),
            lambda: [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in self.processes(*words)],
        )

    def end(self) -> None:
        """Kill all."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in (self.scheduler, *self.workers):
            process.wait()


def _wait_for(log: Path, pattern: re.Pattern[str]) -> str:
    def text() -> str:
        return log.read_text("utf-8", "replace")

    wait_until(lambda: pattern.search(text()), text)
    match = pattern.search(text())
    assert match is not None
    return match[1]


@contextmanager
def cluster(folder: Path, workers: int, *options: str) -> Iterator[Cluster]:
    """A scheduler, with options, and so many workers, which are gone at the end, with all that they started."""
    running = Cluster(folder, *options)
    try:
        for _ in range(workers):
            running.add_worker()
        yield running
    finally:
        running.end()
