"""The cost of large sweeps: records are read once, figures are drawn once, and memory is bounded."""

from __future__ import annotations

import io
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import records as made
from rich.console import Console
from tinysweeps import Silent

from normexp.config import grid, sweep_file
from normexp.records.record import RunRecord
from normexp.runner.run_selection import Options
from normexp.runner.sweep import run_sweep
from normexp.storage import codec
from normexp.storage.store import Store
from normexp.terminal.live import View

STORED = """name: stored
base: {{depth: 2, steps: 100, eval_every: 25}}
grid: {{position: [pre, post], lr: [1e-4, 3e-4, 1e-3, 3e-3, 1e-2], seed: {{range: [0, {last}, 1]}}}}
"""
GIB = 2**20
"""In KiB, as ru_maxrss counts on Linux."""


def stored(folder: Path, runs: int) -> Store:
    """Store made-up runs that are all done, with their config beside them."""
    config_path = folder / "stored.yaml"
    config_path.write_text(STORED.format(last=runs // 10 - 1))
    plan = grid.plan(sweep_file.load(config_path, ()))
    store = Store(folder / "results" / plan.folder)
    with store.lock():
        store.begin(plan, (), force=False)
    texts: dict[str, str] = {}
    for run_id, config in plan.configs.items():
        record = made.done(config, 2.0)
        assert record.traces is not None
        texts = texts or {
            "curve.csv": codec.curve_to_csv(record.traces.curve),
            "layers.csv": codec.signal_to_csv(record.traces.layers),
            "log.txt": "",
        }
        run = store.folder / "runs" / run_id
        run.mkdir()
        for name, text in (texts | {"run.json": codec.record_to_json(record)}).items():
            (run / name).write_text(text)  # without waiting for the disk, as the store does
    return store


def resume(store: Store) -> None:
    options = Options(out=store.folder.parent, jobs=1, executor="inline")
    run_sweep(grid.plan(sweep_file.load(store.folder.parent.parent / "stored.yaml", ())), options, Silent())


def test_without_work_each_record_is_read_once_and_figures_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    counts: Counter[str] = Counter()
    read = codec.record_from_json

    def counted(text: str) -> RunRecord:
        record = read(text)
        counts[record.run_id] += 1
        return record

    def draw(store: Store, report: object) -> None:
        drawn.append(len(drawn))
        store.write_derived("figures/curves.svg", "<svg/>")

    store = stored(tmp_path, 20)
    monkeypatch.setattr(codec, "record_from_json", counted)
    monkeypatch.setattr("normexp.report.report.write_figures", draw)
    for _ in range(2):
        counts.clear()
        resume(store)
        assert set(counts.values()) == {1}
        assert len(counts) == 20
    assert drawn == [0]
    (store.folder / "figures" / "curves.svg").unlink()
    resume(store)
    assert drawn == [0, 1]
    again = next(iter(counts))
    store.write(made.done(store.read_plan().configs[again], 2.5))
    resume(store)
    assert drawn == [0, 1, 2]
    resume(store)
    assert drawn == [0, 1, 2]


def test_curves_of_ended_runs_are_not_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("normexp.report.report.write_figures", lambda store, report: None)
    tiny = {"depth": 1, "width": 8, "hidden": 8, "heads": 2, "vocab": 8, "batch": 4, "steps": 2, "seed": [0, 1]}
    config_path = grid.plan_of(name="tiny", title="Tiny", groups=[("", tiny)])
    view = View(Console(file=io.StringIO()), {}, tmp_path)
    swept = run_sweep(config_path, Options(out=tmp_path, jobs=1, executor="inline"), view)
    kept = [*view.tally.finished, *swept.report.records.values()]
    assert [record.traces for record in kept] == [None] * 4
    assert all(swept.store.traces(record.run_id).curve for record in kept)


MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
"""
"""A small process that starts a command: on Linux, the peak of a child includes that of the process that forks it."""


def spent(*words: str | Path, cwd: Path) -> tuple[float, int]:
    """Return processor seconds and peak KiB of a successful command."""
    command = [sys.executable, "-c", MEASURE, sys.executable, "-m", "normexp", *map(str, words)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seconds, peak = done.stdout.split()
    return float(seconds), int(peak)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="resources of a child process are told on POSIX alone")
def test_ten_thousand_runs_take_ten_times_a_thousand_and_less_than_a_gibibyte(tmp_path: Path) -> None:
    commands = (("list",), ("report", "results/stored"), ("sweep", "stored.yaml"))
    spent_by_runs: dict[int, list[tuple[float, int]]] = {}
    for runs in (1000, 10_000):
        folder = tmp_path / str(runs)
        folder.mkdir()
        stored(folder, runs)
        spent("sweep", "stored.yaml", cwd=folder)  # draws the figures
        spent_by_runs[runs] = [spent(*words, cwd=folder) for words in commands]
    for words, (few, _), (many, peak) in zip(commands, spent_by_runs[1000], spent_by_runs[10_000], strict=True):
        assert peak < GIB, words
        assert many < 15 * few, words
