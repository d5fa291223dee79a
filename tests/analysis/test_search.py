"""The search for a stability limit on made-up runs: what is run, what is reused, and how it continues."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import records
from edgesweep import CELLS

from normexp.analysis import edge_tables as views
from normexp.analysis.edge_search import Search
from normexp.analysis.stability_edges import Edge, Finding, ask
from normexp.config import grid, sweep_file
from normexp.config.run import RunConfig
from normexp.execution.events import Finished
from normexp.execution.executors import EXECUTORS
from normexp.execution.signals import Stopped
from normexp.records.record import RunRecord, Status
from normexp.runner.run_selection import Options
from normexp.runner.sweep import Swept, run_sweep
from normexp.storage import index
from normexp.storage.store import Store

LIMITS = {"post": 2e-3, "pre": 3e-2}


def learns(config: RunConfig) -> RunRecord:
    """Learn up to a learning rate that depends on the position; seed 2 fails at a lower one."""
    limit = LIMITS[config.position] * (0.3 if config.seed == 2 else 1)
    return records.done(config, 1.9) if config.lr <= limit else records.dead(config, 3)


class Machine:
    """An executor of made-up runs, and the listener of its sweeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, train: Callable[[RunConfig], RunRecord] = learns) -> None:
        self.train = train
        self.made: list[str] = []
        self.batches: list[int] = []
        self.left = 10**9
        monkeypatch.setitem(EXECUTORS, "inline", self._execute)
        monkeypatch.setattr("normexp.report.report.write_figures", lambda store, report: None)
        monkeypatch.setattr("os.fsync", lambda descriptor: None)

    def _execute(self, todo: Sequence[RunConfig], **rest: object) -> Iterator[Finished]:
        for config in todo:
            if len(self.made) == self.left:
                raise Stopped(2)
            self.made.append(config.run_id)
            yield Finished(self.train(config))

    def begin(self, todo: Sequence[RunConfig], *, done: int, failed: int, reused: int) -> None:
        self.batches.append(len(todo))

    def event(self, event: object) -> None: ...

    def end(self) -> None: ...

    def search(
        self, out: Path, text: str = CELLS, axis: str = "lr", *, retry_failed: bool = False, **span: str
    ) -> tuple[Swept, list[Edge], Search]:
        """Search as `normexp edge` does."""
        self.made, self.batches = [], []
        search = Search(ask(sweep_file.parse(text, origin="tiny.yaml"), axis, **span))
        store = Store(out / search.folder)
        plan = search.first(index.records(out), store.records() if store.exists() else ())
        options = Options(out=out, jobs=1, executor="inline", retry_failed=retry_failed, rerun_outdated=True)
        swept = run_sweep(plan, options, self, search.grow)
        return swept, search.edges(swept.report.records), search


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def brackets(edges: Sequence[Edge]) -> list[list[tuple[float, int, float, int]]]:
    """(learns at, of its seeds, not at, of its seeds) of each border of each cell."""
    return [[(good.value, good.learned, bad.value, bad.learned) for _, good, bad in views.ends(edge)] for edge in edges]


def test_each_cell_is_bracketed_over_seeds_in_common_batches(machine: Machine, tmp_path: Path) -> None:
    swept, edges, search = machine.search(tmp_path, low="1e-4", high="1")
    assert [edge.finding for edge in edges] == [Finding.BORDER, Finding.BORDER]
    for edge, limit in zip(edges, LIMITS.values(), strict=True):
        ((low, high),) = edge.borders
        assert low.value <= limit < high.value <= 1.5 * low.value
        assert (low.learned, low.seeds, high.learned) == (2, 3, 0)
    assert machine.batches[:2] == [12, 6]
    assert len(machine.made) == len(set(machine.made)) == len(swept.report.records) < search.grid_runs / 2
    assert swept.store.folder.name == "tiny+edge-lr"
    assert swept.report.pivots[0].header == ("lr", "post", "pre")


def test_a_search_that_was_stopped_goes_on_and_runs_nothing_twice(machine: Machine, tmp_path: Path) -> None:
    span = {"low": "1e-4", "high": "1"}
    straight, edges, _ = machine.search(tmp_path / "a", **span)
    made = sorted(machine.made)
    machine.left = 20
    stopped, half, _ = machine.search(tmp_path / "b", **span)
    first = list(machine.made)
    assert (stopped.exit_code, len(first)) == (130, 20)
    assert not all(edge.finished for edge in half)
    assert "not finished" in views.remark(next(edge for edge in half if not edge.finished), views.labels_of(half))
    machine.left = 10**9
    swept, again, _ = machine.search(tmp_path / "b", **span)
    assert sorted([*first, *machine.made]) == made
    assert again == edges
    assert sorted(swept.report.records) == sorted(straight.report.records)
    assert not swept.store.strays()


def test_stale_runs_are_made_again_and_decide_nothing(machine: Machine, tmp_path: Path) -> None:
    machine.train = lambda config: replace(learns(config), numerics=0)
    machine.left = 12
    _, stale, _ = machine.search(tmp_path, low="1e-4", high="1")
    assert all(edge.shares == () for edge in stale)
    machine.train, machine.left = learns, 10**9
    _, edges, _ = machine.search(tmp_path, low="1e-4", high="1")
    assert [edge.finding for edge in edges] == [Finding.BORDER, Finding.BORDER]
    assert machine.batches[0] == 12
    assert len(machine.made) == len(set(machine.made))


def test_a_finer_search_reuses_all_of_the_coarse_one(machine: Machine, tmp_path: Path) -> None:
    _, coarse, _ = machine.search(tmp_path, resolution="10")
    _, _, _ = machine.search(tmp_path, resolution="10")
    assert machine.made == []
    swept, fine, search = machine.search(tmp_path, resolution="1.2")
    assert 0 < len(machine.made) < len(search.ended(swept.report.records))
    for before, after in zip(coarse, fine, strict=True):
        assert {share.value for share in before.shares} < {share.value for share in after.shares}
        assert after.borders[-1][1].value <= 1.2 * after.borders[-1][0].value


def test_runs_of_another_sweep_narrow_the_bracket(machine: Machine, tmp_path: Path) -> None:
    text = CELLS.replace("tiny", "scan") + "  \n"
    scan = grid.plan(
        sweep_file.parse(
            text.replace("]}", "], lr: [1e-3, 1.5e-3, 2.5e-3, 4e-3], seed: [0, 1, 2]}"), origin="scan.yaml"
        )
    )
    run_sweep(scan, Options(out=tmp_path, jobs=1, executor="inline"), machine)
    swept, edges, _ = machine.search(tmp_path, low="1e-4", high="1", resolution="1.7")
    assert brackets(edges)[0] == [(1.5e-3, 2, 2.5e-3, 0)]
    post_alone = [run_id for run_id in machine.made if "-post-" in run_id]
    assert len(post_alone) == 6, "the two ends alone are new"
    assert len(swept.report.records) == len(machine.made) + 24


def test_what_learns_above_a_failure_is_said(machine: Machine, tmp_path: Path) -> None:
    def train(config: RunConfig) -> RunRecord:
        good = config.lr <= 1e-3 or 1e-2 <= config.lr <= 3e-2
        return records.done(config, 1.9 if good else 4.06)

    machine.train = train
    scan = sweep_file.parse(CELLS + "  \n", origin="a", overrides=["name=a", "lr=3e-3,1e-2,3e-2", "seed=0,1,2"])
    run_sweep(grid.plan(scan), Options(out=tmp_path, jobs=1, executor="inline"), machine)
    _, edges, search = machine.search(tmp_path, low="1e-4", high="1", resolution="2")
    assert edges[0].finding is Finding.SEVERAL
    assert len(edges[0].borders) == 3
    assert views.remark(edges[0], views.labels_of(edges)).startswith("not monotone: learns at 0.0001 to 0.00")
    assert "0.01 to 0.03" in views.remark(edges[0], views.labels_of(edges))
    assert "not monotone" in views.conclusion(search.question, edges)
    assert "trainable" not in views.conclusion(search.question, edges)


def test_failed_runs_leave_a_value_without_a_verdict(machine: Machine, tmp_path: Path) -> None:
    def train(config: RunConfig) -> RunRecord:
        if config.lr == 0.01 and config.seed > 0 and config.position == "post":
            return RunRecord(config=config, status=Status.FAILED, error="RuntimeError: no")
        return records.done(config, 1.9 if config.lr < 0.05 else 4.06)

    machine.train = train
    swept, edges, _ = machine.search(tmp_path, low="1e-4", high="1", retry_failed=True)
    assert swept.exit_code == 1
    assert len(machine.made) == len(set(machine.made)), "a failed run is not made again round by round"
    assert brackets(edges)[0] == [(1e-4, 3, 1.0, 0)]
    assert views.remark(edges[0], views.labels_of(edges)) == "no verdict at 0.01 (1/3, 2 failed)"
    machine.train = learns
    _, edges, _ = machine.search(tmp_path, low="1e-4", high="1", retry_failed=True)
    assert all(edge.borders[0][1].value <= 1.5 * edge.borders[0][0].value for edge in edges)
    assert len(machine.made) == len(set(machine.made))


def test_whole_axes_are_halved_in_whole_numbers(machine: Machine, tmp_path: Path) -> None:
    machine.train = lambda config: records.done(config, 1.9 if config.warmup >= 23 else 4.06)
    text = CELLS.replace("steps: 5", "steps: 100")
    _, edges, search = machine.search(tmp_path, text, "warmup", resolution="4", seeds=1)
    assert (search.question.span.high, len(machine.made)) == (100, 14)
    assert [kind for kind, *_ in views.ends(edges[0])] == ["from"]
    assert brackets(edges)[0] == [(25, 1, 21, 0)]
    machine.train = lambda config: records.done(config, 1.9 if config.depth <= 6 else 4.06)
    _, edges, _ = machine.search(tmp_path, axis="depth", high="9", resolution="1", seeds=2)
    assert brackets(edges) == [[(6, 2, 7, 0)]] * 2
