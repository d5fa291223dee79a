"""A script that drives a sweep, without a `__main__` guard and in a separate session."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import workloads
from patience import wait_until

HERE = Path(__file__).parent
SEED = int(os.environ.get("NORMEXP_FAULT_SEED", "2026"))

SCRIPT = """
import json, sys
from contextlib import closing
import workloads
from normexp.execution.events import Finished
from normexp.execution.pool.pool import processes
print("top", flush=True)
configs = [workloads.tiny(seed, steps=STEPS) for seed in range(3)]
try:
    with closing(processes(configs, jobs=2, work=workloads.WORK)) as events:
        for event in events:
            said = event.record.error or event.record.log if isinstance(event, Finished) else ""
            print(type(event).__name__, said, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(130)
print(json.dumps([name for name in sys.modules if name.split(".")[0] == "torch"]))
"""


@contextmanager
def driver(
    folder: Path, work: str, steps: int = workloads.ENDLESS, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    script = folder / "script.py"
    script.write_text(SCRIPT.replace("WORK", work).replace("STEPS", str(steps)))
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]), **environment},
    )
    try:
        yield process
    finally:
        for pid in session(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.communicate()


def session(leader: int) -> list[int]:
    """Return the living processes of a session."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, sid = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(sid) == leader and state not in "ZX":
            pids.append(int(folder.name))
    return pids


def wait_for(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(word):
            return
    raise AssertionError(f"no {word}: {process.communicate()}")


def wait_until_gone(leader: int) -> None:
    """Wait until no process of a session is alive."""
    wait_until(lambda: not session(leader), lambda: session(leader))


def parent(pid: int) -> int:
    """Return the parent process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
