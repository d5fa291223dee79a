"""normexp edge: what is run, what is reused, and what is said of it. Most runs here are made up, a few are real."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import records

from normexp.bisection import Finding, Span
from normexp.cli import app
from normexp.cli import edge as command
from normexp.config import grid, sweepfile
from normexp.edge import AXES, Edge, Question, Share, ask
from normexp.errors import UserError
from normexp.execute.events import Finished
from normexp.execute.executors import EXECUTORS
from normexp.interrupt import Stopped
from normexp.record import RunRecord, Status
from normexp.results import library
from normexp.results.store import Store
from normexp.run import RunConfig
from normexp.search import Search
from normexp.sweep import Swept, run_sweep
from normexp.views import edge as views
from normexp.work import Options

BASE = "depth: 1, width: 8, hidden: 8, heads: 2, vocab: 8, batch: 4, steps: 5, eval_every: 5"
CELLS = f"name: tiny\ntitle: Tiny\nbase: {{{BASE}}}\ngrid: {{position: [post, pre]}}\n"
LIMITS = {"post": 2e-3, "pre": 3e-2}


def learns(config: RunConfig) -> RunRecord:
    """Up to a rate that the position decides; seed 2 breaks earlier."""
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
        monkeypatch.setattr("normexp.views.report.write_figures", lambda store, report: None)
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
        """What `normexp edge` does, without its words."""
        self.made, self.batches = [], []
        search = Search(ask(sweepfile.parse(text, origin="tiny.yaml"), axis, **span))
        store = Store(out / search.folder)
        plan = search.first(library.records(out), store.records() if store.exists() else ())
        options = Options(out=out, jobs=1, executor="inline", retry_failed=retry_failed)
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
    assert "not finished" in views.remark(next(edge for edge in half if not edge.finished))
    machine.left = 10**9
    swept, again, _ = machine.search(tmp_path / "b", **span)
    assert sorted([*first, *machine.made]) == made
    assert again == edges
    assert sorted(swept.report.records) == sorted(straight.report.records)
    assert not swept.store.strays()


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
        sweepfile.parse(text.replace("]}", "], lr: [1e-3, 1.5e-3, 2.5e-3, 4e-3], seed: [0, 1, 2]}"), origin="scan.yaml")
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
    scan = sweepfile.parse(CELLS + "  \n", origin="a", overrides=["name=a", "lr=3e-3,1e-2,3e-2", "seed=0,1,2"])
    run_sweep(grid.plan(scan), Options(out=tmp_path, jobs=1, executor="inline"), machine)
    _, edges, search = machine.search(tmp_path, low="1e-4", high="1", resolution="2")
    assert edges[0].finding is Finding.SEVERAL
    assert len(edges[0].borders) == 3
    assert views.remark(edges[0]).startswith("not monotone: learns at 0.0001 to 0.00")
    assert "0.01 to 0.03" in views.remark(edges[0])
    assert "not monotone" in views.conclusion(search.question, edges)
    assert "lies" not in views.conclusion(search.question, edges)


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
    assert views.remark(edges[0]) == "no verdict at 0.01 (1 of 3, 2 failed)"
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


@pytest.mark.parametrize(
    ("text", "axis", "given", "told"),
    [
        (CELLS, "heads", {}, "--axis heads: there are lr, init_gain, depth, warmup"),
        (CELLS.replace("]}", "], lr: [1e-3, 1e-2]}"), "lr", {}, "lr is an axis of the grid, and edge finds"),
        (CELLS + "zip: {lr: [1, 2], order: [1, 2]}\n", "lr", {}, "lr stands in a zip group"),
        (CELLS + "exclude: {position: post, seed: 1}\n", "lr", {}, "exclude names seed"),
        (CELLS, "lr", {"low": "1e-2", "high": "1e-3"}, "--low 0.01 is not below --high 0.001"),
        (CELLS, "lr", {"low": "1"}, "--low 1 is not below --high 1"),
        (CELLS, "lr", {"low": "0"}, "--low: 0.0 is out of range: a number above 0"),
        (CELLS, "init_gain", {"low": "0"}, "--low: 0 has no logarithm"),
        (CELLS, "depth", {"low": "0"}, "--low: 0 is out of range: at least 1"),
        (CELLS, "depth", {"high": "2.5"}, "--high: 2.5 is not a whole number"),
        (CELLS, "lr", {"high": "fast"}, "--high: 'fast' is not a number"),
        (CELLS, "lr", {"resolution": "1"}, "--resolution: 1 is the ratio"),
        (CELLS, "lr", {"resolution": "nan"}, "--resolution: nan is the ratio"),
        (CELLS, "warmup", {"resolution": "1.5"}, "--resolution: '1.5' is not a whole number"),
        (CELLS, "lr", {"at_least": 4}, "--at-least 4: there are only 3 seeds"),
        (CELLS, "lr", {"seeds": 10**12}, "--seeds 1000000000000: at most 10000"),
        (CELLS.replace("]}", "], seed: {range: [0, 1000000000, 1]}}"), "lr", {}, "seed has 1000000001 values: at"),
    ],
)
def test_what_cannot_be_asked_is_refused(text: str, axis: str, given: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError) as fault:
        ask(sweepfile.parse(text, origin="tiny.yaml"), axis, **given)
    assert told in str(fault.value)


def test_a_search_that_may_need_too_many_runs_is_refused() -> None:
    question = ask(sweepfile.parse(CELLS, origin="tiny.yaml"), "lr")
    with pytest.raises(UserError, match=r"tiny.yaml: up to \d+ runs \(2 cells, 3 seeds\), more than 50: .*--max-runs"):
        Search(question, max_runs=50)


def test_seeds_are_those_of_the_grid_or_as_many_as_asked_for() -> None:
    def seeds(text: str, count: int | None = None) -> tuple[int, ...]:
        return ask(sweepfile.parse(text, origin="a"), "lr", seeds=count).seeds

    with_grid = CELLS.replace("]}", "], seed: [4, 7]}")
    assert (seeds(CELLS), seeds(CELLS, 1), seeds(with_grid), seeds(with_grid, 3)) == (
        (0, 1, 2),
        (0,),
        (4, 7),
        (4, 5, 6),
    )
    assert seeds(CELLS.replace("depth: 1", "depth: 1, seed: 5")) == (5, 6, 7)


def edge_of(name: str, *shares: tuple[float, int], finding: Finding = Finding.BORDER) -> Edge:
    found = [Share(value=value, learned=learned, seeds=3, failed=0, needed=2) for value, learned in shares]
    borders = tuple((low, high) for low, high in pairwise(found) if low.verdict is not high.verdict)
    values = {"label": "", "position": name}
    return Edge(values=values, shares=tuple(found), finding=finding, borders=borders, finished=True)


def question() -> Question:
    span = Span(low=1e-4, high=1e-1, resolution=1.5, whole=False)
    return Question(sweep=sweepfile.parse(CELLS, origin="a"), axis="lr", span=span, seeds=(0, 1, 2), needed=2)


POST = edge_of("post", (1e-4, 3), (1e-3, 1), (1.4e-3, 0), (1e-1, 0))
PRE = edge_of("pre", (1e-4, 3), (3e-3, 1 + 1), (0.0119, 3), (0.015, 1), (1e-1, 0))
WINDOW = edge_of("mix", (1e-4, 0), (3e-3, 3), (4e-3, 0), (1e-1, 0), finding=Finding.SEVERAL)
ALL = edge_of("glm", (1e-4, 3), (3e-3, 3), (1e-1, 2), finding=Finding.EVERYWHERE)
NONE = edge_of("b2t", (1e-4, 0), (3e-3, 0), (1e-1, 0), finding=Finding.NOWHERE)


def test_the_table_gives_both_ends_with_k_of_n_and_says_what_a_bracket_hides() -> None:
    table = views.table(question(), [POST, PRE, WINDOW, ALL, NONE])
    assert table.header == ("position", "learns", "at", "but not at", "values run", "remark")
    assert table.rows == (
        ("post", "up to", "0.0001 (3 of 3)", "0.001 (1 of 3)", "4", ""),
        ("pre", "up to", "0.0119 (3 of 3)", "0.015 (1 of 3)", "5", "mixed at 0.003 (2 of 3)"),
        ("mix", "from", "0.003 (3 of 3)", "0.0001 (0 of 3)", "4", "learns only in between"),
        ("mix", "up to", "0.003 (3 of 3)", "0.004 (0 of 3)", "", ""),
        ("glm", "at every value", "0.0001 (3 of 3) to 0.1 (2 of 3)", "", "3", ""),
        ("b2t", "at no value", "", "0.0001 (0 of 3) to 0.1 (0 of 3)", "3", ""),
    )


def test_the_conclusion_claims_no_more_than_the_brackets() -> None:
    told = views.conclusion(question(), [POST, PRE, ALL, NONE])
    assert told == (
        "The lr up to which it learns is lowest with position post (0.0001, not 0.001) and highest with position pre"
        " (0.0119, not 0.015): at least 11 times as high."
        " The cell position glm learns at all values run from lr 0.0001 to 0.1."
        " The cell position b2t learns at no value run from lr 0.0001 to 0.1."
    )
    near = edge_of("mix", (1e-4, 3), (5e-3, 2), (2e-2, 0))
    told = views.conclusion(question(), [PRE, near])
    assert told == "The lr up to which it learns lies between 0.005 and 0.02 in 2 cells."
    assert views.conclusion(question(), [POST]) == (
        "With position post it learns up to lr 0.0001 (3 of 3) but not at 0.001 (1 of 3)."
    )
    assert "from which on it learns" not in views.conclusion(question(), [POST, PRE])


CONFIG = f"name: tiny\nbase: {{{BASE}, order: 1, lr: 3e-2}}\n".replace("steps: 5", "steps: 40").replace(
    "batch: 4", "batch: 16"
)


def test_real_runs_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    (tmp_path / "tiny.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("normexp.views.report.write_figures", lambda store, report: None)
    asked = ["normexp", "edge", "tiny.yaml", "batch=8", "--axis", "lr", "--seeds", "1", "--executor", "inline"]
    asked += ["--low", "3e-2", "--high", "1e30", "--resolution", "1e9"]
    monkeypatch.setattr("sys.argv", [*asked, "--dry-run"])
    assert _main() == 0
    assert "at most" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()
    monkeypatch.setattr("sys.argv", asked)
    assert _main() == 0
    told = capsys.readouterr()
    folder = tmp_path / "results" / "tiny+batch=8+edge-lr"
    assert {"manifest.json", "runs", "points.csv", "edge.csv", "edge.md"} <= {path.name for path in folder.iterdir()}
    assert {f"edge.{suffix}" for suffix in ("svg", "png", "csv")} <= {p.name for p in (folder / "figures").iterdir()}
    runs = len(list((folder / "runs").iterdir()))
    assert f"{runs} runs; the whole grid of this resolution would take 5." in told.out
    assert "It learns up to lr 0.03 (1 of 1) but not at" in told.out
    assert _main() == 0
    assert f"{runs} runs ({runs} of them stored before)" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["normexp", "report", str(folder)])
    assert _main() == 0
    assert Store(folder).read_plan().title.startswith("Where along lr it ceases to learn")
    monkeypatch.setattr("sys.argv", ["normexp", "edge", "tiny.yaml", "--axis", "heads"])
    assert _main() == 2


def _main() -> int:
    with pytest.raises(SystemExit) as end:
        app.main()
    return int(end.value.code or 0)


def test_the_defaults_of_the_table_can_be_asked_and_are_those_of_the_help() -> None:
    told = " ".join((command.edge.__doc__ or "").split())
    for axis, row in AXES.items():
        assert f"{axis} {row}" in told
        span = ask(sweepfile.parse(CELLS.replace("steps: 5", "steps: 500"), origin="a"), axis).span
        assert span.most_values < span.grid_values
