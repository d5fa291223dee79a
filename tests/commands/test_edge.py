"""normexp edge: what may be asked, and a few real runs from the command line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from edgesweep import BASE, CELLS

from normexp.analysis.edge_search import Search
from normexp.analysis.stability_edges import AXES, ask
from normexp.commands import app
from normexp.commands import edge as command
from normexp.config import sweep_file
from normexp.errors import UserError
from normexp.storage.store import Store


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
        (CELLS, "lr", {"resolution": "nan"}, "--resolution: 'nan' is not a number"),
        (CELLS, "warmup", {"resolution": "1.5"}, "--resolution: 1.5 is not a whole number"),
        (CELLS, "lr", {"at_least": 4}, "--at-least 4: there are only 3 seeds"),
        (CELLS, "lr", {"seeds": 10**12}, "--seeds 1000000000000: at most 10000"),
        (CELLS.replace("]}", "], seed: {range: [0, 1000000000, 1]}}"), "lr", {}, "seed has 1000000001 values: at"),
    ],
)
def test_what_cannot_be_asked_is_refused(text: str, axis: str, given: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError) as fault:
        ask(sweep_file.parse(text, origin="tiny.yaml"), axis, **given)
    assert told in str(fault.value)


def test_a_search_that_may_need_too_many_runs_is_refused() -> None:
    question = ask(sweep_file.parse(CELLS, origin="tiny.yaml"), "lr")
    with pytest.raises(UserError, match=r"tiny.yaml: up to \d+ runs \(2 cells, 3 seeds\), more than 50: .*--max-runs"):
        Search(question, max_runs=50)


def test_seeds_are_those_of_the_grid_or_as_many_as_asked_for() -> None:
    def seeds(text: str, count: int | None = None) -> tuple[int, ...]:
        return ask(sweep_file.parse(text, origin="a"), "lr", seeds=count).seeds

    with_grid = CELLS.replace("]}", "], seed: [4, 7]}")
    assert (seeds(CELLS), seeds(CELLS, 1), seeds(with_grid), seeds(with_grid, 3)) == (
        (0, 1, 2),
        (0,),
        (4, 7),
        (4, 5, 6),
    )
    assert seeds(CELLS.replace("depth: 1", "depth: 1, seed: 5")) == (5, 6, 7)


def test_a_search_that_never_needs_more_than_the_grid_says_nothing_of_it() -> None:
    question = ask(sweep_file.parse(CELLS, origin="c.yaml"), "lr", low="1e-4", seeds=1)
    search = Search(question)
    assert search.most_runs < search.grid_runs
    assert command._most(search).endswith(f"takes {search.grid_runs} runs")


CONFIG = f"name: tiny\nbase: {{{BASE}, order: 1, lr: 3e-2}}\n".replace("steps: 5", "steps: 40").replace(
    "batch: 4", "batch: 16"
)


def test_real_runs_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    (tmp_path / "tiny.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("normexp.report.report.write_figures", lambda store, report: None)
    asked = ["normexp", "edge", "tiny.yaml", "batch=8", "--axis", "lr", "--seeds", "1", "--executor", "inline"]
    asked += ["--low", "3e-2", "--high", "1e30", "--resolution", "1e9"]
    monkeypatch.setattr("sys.argv", [*asked, "--dry-run"])
    assert _main() == 0
    most = re.search(
        r"at most (\d+) runs; the whole grid of this resolution takes 5 runs: (.*)", capsys.readouterr().out
    )
    assert most is not None
    assert most[2].startswith(f"in the worst case the search needs {int(most[1]) - 5} more than the grid")
    assert not (tmp_path / "results").exists()
    monkeypatch.setattr("sys.argv", asked)
    assert _main() == 0
    told = capsys.readouterr()
    assert most[0] in told.err.splitlines()[0], "said before it starts"
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
    told = " ".join((command.command.__doc__ or "").split())
    for axis, row in AXES.items():
        assert f"{axis} {row}" in told
        span = ask(sweep_file.parse(CELLS.replace("steps: 5", "steps: 500"), origin="a"), axis).span
        assert span.most_values < span.grid_values
