"""The lock of a folder, and errors of file systems without locks."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from commandline import TINY, invoke

from normexp.config.plan import Plan
from normexp.errors import UserError
from normexp.storage import lock
from normexp.storage.files import StorageError
from normexp.storage.lock import HOLDER, LOCK, driver_lock
from normexp.storage.store import Store

ADVICE = "another file system"
REFUSED = [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL]


@pytest.fixture(params=REFUSED, ids=lambda code: errno.errorcode[code])
def refused(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The operating system refuses each lock with this error number."""
    code: int = request.param
    _refuse(code, monkeypatch)
    return code


def _refuse(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(fd: int, operation: int) -> None:
        raise OSError(code, os.strerror(code))

    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(fcntl, "flock", flock)


def test_a_file_system_without_locks_is_reported_with_advice(refused: int, tmp_path: Path) -> None:
    with pytest.raises(StorageError) as fault, driver_lock(tmp_path):
        pytest.fail("it holds no lock")
    facts = (str(tmp_path / LOCK), os.strerror(refused), ADVICE)
    assert [fact for fact in facts if fact not in str(fault.value)] == []


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["sweep", "tiny.yaml"], id="sweep"),
        pytest.param(["collapse", "--depth", "1", "--width", "8", "--steps", "3"], id="collapse"),
        pytest.param(["edge", "tiny.yaml", "--low", "1e-3", "--seeds", "1"], id="edge"),
        pytest.param(["probe", "depth=1", "width=8", "--seeds", "1"], id="probe", marks=pytest.mark.slow),
        pytest.param(["bench", "--shapes", "4x8", "--rounds", "3", "--steps", "0"], id="bench", marks=pytest.mark.slow),
    ],
)
def test_each_command_reports_it_in_one_line(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _refuse(errno.ENOLCK, monkeypatch)
    (tmp_path / "tiny.yaml").write_text(TINY)
    inline = [] if arguments[0] in ("probe", "bench") else ["--executor", "inline"]
    done = invoke(*arguments, *inline, cwd=tmp_path)
    assert done.code == 2
    lines = [line for line in done.err.splitlines() if line.startswith("normexp: ")]
    assert len(lines) == 1
    assert [fact for fact in (f"/{LOCK}: {os.strerror(errno.ENOLCK)}", ADVICE) if fact not in lines[0]] == []
    assert not list(tmp_path.rglob("run.json"))


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda path: path.mkdir(), "remove that folder"),
        (lambda path: path.symlink_to("elsewhere"), "remove the symbolic link"),
    ],
)
def test_other_files_in_its_place_are_reported(make: Callable[[Path], None], advice: str, tmp_path: Path) -> None:
    make(tmp_path / LOCK)
    with pytest.raises(StorageError, match=f"{LOCK}: .*{advice}"), driver_lock(tmp_path):
        pytest.fail("it holds no lock")
    assert not (tmp_path / "elsewhere").exists()


def test_the_lock_is_released_after_an_exception(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), driver_lock(tmp_path):
        raise ZeroDivisionError
    with driver_lock(tmp_path), pytest.raises(UserError, match="in use"), driver_lock(tmp_path):
        pytest.fail("two hold it")
    assert not (tmp_path / HOLDER).exists()


def test_child_processes_do_not_keep_the_lock(tmp_path: Path) -> None:
    with driver_lock(tmp_path):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    try:
        with driver_lock(tmp_path):
            assert child.poll() is None
    finally:
        child.communicate(b"\n")


def test_an_interrupt_between_open_and_lock_leaks_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(fd: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lock, "take", interrupted)
    before = os.listdir("/proc/self/fd") if Path("/proc/self/fd").exists() else pytest.skip("reads /proc")
    with pytest.raises(KeyboardInterrupt), driver_lock(tmp_path):
        pytest.fail("it holds no lock")
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "free some of your quota"),
        (errno.EROFS, "another file system"),
        (errno.EACCES, "permissions"),
        (errno.ESTALE, "run the command again"),
        (errno.ENAMETOOLONG, "shorter name"),
    ],
    ids=lambda value: errno.errorcode[value] if isinstance(value, int) else "",
)
def test_disk_errors_come_with_advice(
    code: int, advice: str, store: Store, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(StorageError, match=rf"cannot write .*: {os.strerror(code)} \(.*{advice}"):
        store.begin(plan, ["sweep"], force=False)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP], ids=errno.errorcode.get)
def test_a_file_system_without_fsync_is_accepted(
    code: int, tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(fd: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fsync)
    store = Store(tmp_path / "here")
    store.begin(plan, ["sweep"], force=False)
    assert store.read_plan().configs.keys() == plan.configs.keys()
