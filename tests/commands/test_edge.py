"""normexp edge: valid and invalid questions, and a few real runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from commandline import invoke
from edgesweep import BASE, CELLS

from normexp.analysis.edge_search import Search
from normexp.analysis.stability_edges import ask
from normexp.commands import edge as command
from normexp.config import sweep_file
from normexp.config.presets import EDGE_AXES
from normexp.errors import UserError
from normexp.storage.store import Store


@pytest.mark.parametrize(
    ("text", "axis", "options", "fact"),
    [
        (CELLS, "heads", {}, "--axis heads"),
        (CELLS.replace("]}", "], lr: [1e-3, 1e-2]}"), "lr", {}, "lr"),
        (CELLS + "zip: {lr: [1, 2], order: [1, 2]}\n", "lr", {}, "zip"),
        (CELLS + "exclude: {position: post, seed: 1}\n", "lr", {}, "exclude"),
        (CELLS, "lr", {"low": "1e-2", "high": "1e-3"}, "--low 0.01"),
        (CELLS, "lr", {"low": "1"}, "--low 1"),
        (CELLS, "lr", {"low": "0"}, "--low: 0.0"),
        (CELLS, "init_gain", {"low": "0"}, "--low: 0"),
        (CELLS, "depth", {"low": "0"}, "--low: 0"),
        (CELLS, "depth", {"high": "2.5"}, "--high: 2.5"),
        (CELLS, "lr", {"high": "fast"}, "--high: 'fast'"),
        (CELLS, "lr", {"resolution": "1"}, "--resolution: 1"),
        (CELLS, "lr", {"resolution": "nan"}, "--resolution: 'nan'"),
        (CELLS, "warmup", {"resolution": "1.5"}, "--resolution: 1.5"),
        (CELLS, "lr", {"at_least": 4}, "--at-least 4"),
        (CELLS, "lr", {"seeds": 10**12}, "--seeds 1000000000000"),
        (CELLS.replace("]}", "], seed: {range: [0, 1000000000, 1]}}"), "lr", {}, "1000000001 values"),
    ],
)
def test_invalid_questions_are_refused(text: str, axis: str, options: dict[str, Any], fact: str) -> None:
    with pytest.raises(UserError) as fault:
        ask(sweep_file.parse(text, origin="tiny.yaml"), axis, **options)
    assert fact in str(fault.value)


def test_a_search_that_may_need_too_many_runs_is_refused() -> None:
    question = ask(sweep_file.parse(CELLS, origin="tiny.yaml"), "lr")
    with pytest.raises(UserError, match=r"tiny.yaml: .*\d+ runs .*50.*--max-runs"):
        Search(question, max_runs=50)


def test_seeds_are_those_of_the_grid_or_of_the_option() -> None:
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


def test_the_cost_bound_names_an_excess_only_if_there_is_one() -> None:
    question = ask(sweep_file.parse(CELLS, origin="c.yaml"), "lr", low="1e-4", seeds=1)
    search = Search(question)
    assert search.most_runs < search.grid_runs
    assert command._cost_bound(search).endswith(f" {search.grid_runs} runs")


CONFIG = f"name: tiny\nbase: {{{BASE}, order: 1, lr: 3e-2}}\n".replace("steps: 5", "steps: 40").replace(
    "batch: 4", "batch: 16"
)


@pytest.mark.usefixtures("no_figures")
def test_real_runs_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(CONFIG)
    arguments = ["edge", "tiny.yaml", "batch=8", "--axis", "lr", "--seeds", "1", "--executor", "inline"]
    arguments += ["--low", "3e-2", "--high", "1e30", "--resolution", "1e9"]
    dry_run = invoke(*arguments, "--dry-run", cwd=tmp_path)
    bound = re.search(r"at most (\d+) runs; .* 5 runs: .* (\d+) more than the grid", dry_run.out)
    assert bound is not None
    assert (dry_run.code, int(bound[2])) == (0, int(bound[1]) - 5)
    assert not (tmp_path / "results").exists()
    done = invoke(*arguments, cwd=tmp_path)
    assert done.code == 0
    assert bound[0] in done.err.splitlines()[0], "shown before the first run"
    folder = tmp_path / "results" / "tiny+batch=8+edge-lr"
    assert {"manifest.json", "runs", "points.csv", "edge.csv", "edge.md"} <= {path.name for path in folder.iterdir()}
    assert {f"edge.{suffix}" for suffix in ("svg", "png", "csv")} <= {p.name for p in (folder / "figures").iterdir()}
    runs = len(list((folder / "runs").iterdir()))
    assert f"{runs} runs" in done.out
    assert "0.03 (1/1)" in done.out
    assert f"{runs} runs ({runs} of them" in invoke(*arguments, cwd=tmp_path).out
    assert invoke("report", folder).code == 0
    assert " lr:" in Store(folder).read_plan().title


def test_the_default_ranges_are_valid() -> None:
    for axis in EDGE_AXES:
        span = ask(sweep_file.parse(CELLS.replace("steps: 5", "steps: 500"), origin="a"), axis).span
        assert span.most_values < span.grid_values
