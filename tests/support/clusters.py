"""A dask scheduler and its workers in separate processes on loopback."""

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
    """A scheduler and its workers. All processes below them have a mark in their environment."""

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
        """Start a single-threaded worker without waiting for it."""
        arguments = ["worker", self.address, "--nthreads", "1", "--no-dashboard", *options]
        worker = self._start(arguments, self._folder / f"worker{len(self.workers)}.log")
        self.workers.append(worker)
        return worker

    def wait_for_workers(self, count: int) -> None:
        """Wait until the scheduler has exactly `count` workers."""
        import distributed

        client_of: Any = distributed.Client
        with client_of(self.address, set_as_default=False) as client:
            wait_until(lambda: len(client.nthreads()) == count, self.logs)

    def logs(self) -> str:
        """Return the output of all processes."""
        return "\n".join(path.read_text("utf-8", "replace") for path in sorted(self._folder.glob("*.log")))

    def processes(self, *words: str) -> list[int]:
        """Return the living processes whose command contains all words."""
        pids = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                marked = f"{MARK}={self._mark}".encode() in (folder / "environ").read_bytes()
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                command = (folder / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if marked and state not in "ZX" and all(word in command for word in words):
                pids.append(int(folder.name))
        return pids

    def wait_until_no_run(self) -> None:
        """Wait until all hosts are idle: each has only its fork server, and no forked process."""
        wait_until(lambda: len(self.processes("forkserver")) <= len(self.processes("normexp.execution.dask.host")))

    def wait_until_gone(self, *words: str) -> None:
        """Wait until there are no `processes(*words)`."""
        wait_until(
            lambda: not self.processes(*words),
            lambda: [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in self.processes(*words)],
        )

    def end(self) -> None:
        """Kill all processes."""
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
    """Yield a scheduler with workers, and kill all their processes at the end."""
    running = Cluster(folder, *options)
    try:
        for _ in range(workers):
            running.add_worker()
        yield running
    finally:
        running.end()
