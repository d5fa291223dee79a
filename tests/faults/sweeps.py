"""Sweeps of very short runs, and their results."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from nursery import Ended

Run = Callable[..., Ended]
"""`commands.program`, or `run` of a nursery."""

BASE = (
    "base: {depth: 1, width: 8, hidden: 8, heads: 2, vocab: 8, order: 1, batch: 4, steps: 6, eval_every: 3, "
    "optimizer: sgd, norm: none}\n"
)
ONE, TWO = "one", "two"
CONFIGS = {ONE: "grid: {lr: [1e-2], seed: [0, 1]}\n", TWO: "grid: {lr: [1e-2, 1e30], seed: [1, 2]}\n"}
"""`two` shares a run with `one`. Runs with lr 1e30 become non-finite."""
TRACES = ("curve.csv", "layers.csv", "death.csv")
REPRODUCIBLE = ("points.csv", "runs.csv", "summary.csv")


def write_configs(folder: Path) -> None:
    for name, grid in CONFIGS.items():
        (folder / f"{name}.yaml").write_text(BASE + grid)


def arguments(folder: Path, name: str) -> list[str]:
    """Return the arguments that run or continue a sweep."""
    out = str(folder / "results")
    return ["sweep", str(folder / f"{name}.yaml"), "--out", out, "--executor", "inline", "--save-weights"]


def sweep(run: Run, folder: Path, name: str, **faults: object) -> Ended:
    return run(*arguments(folder, name), cwd=folder, **faults)


def finished(run: Run, folder: Path, name: str, **faults: object) -> Ended:
    ended = sweep(run, folder, name, **faults)
    assert ended.code == 0, ended.err
    return ended


def numbers(folder: Path, name: str, *, norms: bool = True) -> dict[str, str]:
    """Return all traces and the tables without times, without gradient norms if `norms` is false."""
    texts = {table: (folder / "results" / name / table).read_text() for table in REPRODUCIBLE}
    for path in sorted((folder / "results" / name / "runs").glob("*/*")):
        if path.name in TRACES:
            text = path.read_text()
            texts[f"{path.parent.name}/{path.name}"] = text if norms else _without_norms(text)
    return texts


def _without_norms(text: str) -> str:
    rows = list(csv.reader(text.splitlines()))
    column = rows[0].index("grad_norm") if "grad_norm" in rows[0] else None
    kept = [[cell for index, cell in enumerate(row) if index != column] for row in rows if "grad_norm" not in row[1:4]]
    return "\n".join(",".join(row) for row in (kept if column is None else [rows[0], *kept]))


def leftovers(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in (folder / "results").rglob("*.tmp"))
