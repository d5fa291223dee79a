"""The program where others start it: closed streams, lost readers, full disks, ignored signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import normexp
from normexp.commands import app, options
from normexp.execution.signals import SIGNALS, Stopped, stoppable

TINY = "base: {depth: 1, width: 8, hidden: 8, heads: 2, vocab: 8, batch: 4, steps: 3, eval_every: 2}\n"
PROGRAM = f"{sys.executable} -m normexp"


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )


def unread(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command, with a standard output whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            command.split(), cwd=folder, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    finally:
        os.close(writer)


@pytest.mark.parametrize(
    "closed", ["<&- >&- 2>&-", *(pytest.param(one, marks=pytest.mark.slow) for one in (">&-", "2>&-"))]
)
def test_a_sweep_with_closed_streams(tmp_path: Path, closed: str) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY + "grid: {lr: [1e-3, 1e-2]}\n")
    done = shell(f"{PROGRAM} sweep tiny.yaml --jobs 2 {closed}", tmp_path)
    records = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "results").rglob("run.json")]
    assert [(record["status"], record.get("error")) for record in records] == [("done", None)] * 2
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", ["list", "schemes", "--help", "sweep --help"])
def test_a_reader_that_has_gone_is_no_fault(tmp_path: Path, arguments: str) -> None:
    done = unread(f"{PROGRAM} {arguments}", tmp_path)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("arguments", ["list", "schemes", "--help"])
def test_an_output_that_cannot_be_written_is_told_in_one_line(tmp_path: Path, arguments: str) -> None:
    done = shell(f"{PROGRAM} {arguments} >/dev/full", tmp_path)
    assert done.returncode == 1
    assert done.stderr == "normexp: cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize("ignored", SIGNALS)
def test_a_signal_that_is_ignored_stays_so(ignored: signal.Signals) -> None:
    before = signal.signal(ignored, signal.SIG_IGN)
    try:
        with stoppable():
            signal.raise_signal(ignored)
            for other in set(SIGNALS) - {ignored}:
                with pytest.raises(Stopped):
                    signal.raise_signal(other)
        assert signal.getsignal(ignored) is signal.SIG_IGN
    finally:
        signal.signal(ignored, before)


def test_the_version_is_told(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "normexp", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"normexp {normexp.__version__}\n"


@pytest.mark.parametrize(("former", "name"), options.RENAMED.items())
def test_former_names_of_options_work_and_are_told(former: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("base: {depth: 1}\n")
    done = shell(f"{PROGRAM} sweep a.yaml --dry-run {former}", tmp_path)
    assert done.returncode == 0
    assert f"{former} is now called {name}" in done.stderr
    assert shell(f"{PROGRAM} list {former}", tmp_path).returncode == 2


def test_every_command_has_a_panel_of_the_help() -> None:
    named = [name for name, module in app.commands()]
    assert len(named) == 19
    assert {module.PANEL for _, module in app.commands()} == {*options.Panel}
