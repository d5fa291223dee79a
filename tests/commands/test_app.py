"""The program under closed streams, closed pipes, full disks and ignored signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import golden_texts
import pytest
from commandline import TINY, invoke

import normexp
from normexp.commands import app, options
from normexp.execution.signals import SIGNALS, Stopped, stoppable

PROGRAM = f"{sys.executable} -m normexp"


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )


def with_closed_pipe(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command with a closed pipe as standard output."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            command.split(), cwd=folder, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    finally:
        os.close(writer)


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", ">&-", "2>&-"])
def test_a_sweep_with_closed_streams(tmp_path: Path, closed: str) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY + "grid: {lr: [1e-3, 1e-2]}\n")
    done = shell(f"{PROGRAM} sweep tiny.yaml --jobs 2 {closed}", tmp_path)
    records = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "results").rglob("run.json")]
    assert [(record["status"], record.get("error")) for record in records] == [("done", None)] * 2
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", ["list", "schemes", "--help", "sweep --help"])
def test_a_closed_pipe_ends_the_program_silently(tmp_path: Path, arguments: str) -> None:
    done = with_closed_pipe(f"{PROGRAM} {arguments}", tmp_path)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("arguments", ["list", "schemes", "--help"])
def test_a_full_output_device_is_reported_in_one_line(tmp_path: Path, arguments: str) -> None:
    done = shell(f"{PROGRAM} {arguments} >/dev/full", tmp_path)
    assert (done.returncode, done.stderr) == (1, golden_texts.FULL_OUTPUT)


@pytest.mark.parametrize("ignored", SIGNALS)
def test_an_ignored_signal_stays_ignored(ignored: signal.Signals) -> None:
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


def test_version() -> None:
    assert invoke("--version").out == f"normexp {normexp.__version__}\n"


@pytest.mark.parametrize(("former", "name"), options.RENAMED.items())
def test_former_names_of_options_work_with_a_warning(former: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("base: {depth: 1}\n")
    done = invoke("sweep", "a.yaml", "--dry-run", former, cwd=tmp_path)
    assert (done.code, former in done.err, name in done.err) == (0, True, True)
    assert invoke("list", former, cwd=tmp_path).code == 2


def test_every_command_has_a_panel() -> None:
    names = {path.stem for path in Path(app.__file__).parent.glob("[!_]*.py")} - {"app", "completion", "options"}
    assert {name for name, _ in app.commands()} == names
    assert {module.PANEL for _, module in app.commands()} == {*options.Panel}
