"""Counting points and runs: an upper bound or exact, in agreement with brute force."""

import itertools
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from normexp.config import counting, grid, sweep_file
from normexp.config.axes import Axis
from normexp.config.run import KEYS, RunConfig
from normexp.errors import UserError


def counted(text: str) -> grid.Count:
    return grid.count(sweep_file.parse(text, origin="c.yaml"))


HUGE = """
grid: {depth: {range: [1, 1000, 1]}, lr: {logspace: [1e-5, 1, 1000]}, warmup: {range: [0, 1000, 1]},
       seed: {range: [0, 1000, 1]}}
"""


@pytest.mark.parametrize(
    ("text", "points"), [(HUGE, 1000 * 1000 * 1001 * 1001), ("grid: {lr: {linspace: [1e-5, 1, 1e12]}}", 10**12)]
)
def test_a_huge_grid_is_counted_and_rejected_unbuilt(text: str, points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    value = Axis.value
    monkeypatch.setattr(Axis, "value", lambda axis, index: built.append(index) or value(axis, index))
    sweep = sweep_file.parse(text, origin="c.yaml")
    assert grid.count(sweep) == grid.Count(points=points, runs=points, duplicates=0, excluded=0, exact=False)
    with pytest.raises(UserError, match=f"{points} runs .*--max-runs"):
        grid.plan(sweep)
    assert len(built) < 100


def test_a_large_grid_is_counted_exactly_with_few_structures(monkeypatch: pytest.MonkeyPatch) -> None:
    settled = []
    settle = counting._settle
    monkeypatch.setattr(counting, "_settle", lambda *points: settled.append(1) or settle(*points))
    count = counted(
        "grid: {norm: [none, ln], position: [pre, post], lr: {logspace: [1e-5, 1, 2500]}, seed: {range: [0, 99, 1]}}"
    )
    assert count == grid.Count(points=10**6, runs=750_000, duplicates=250_000, excluded=0, exact=True)
    assert len(settled) == 4, "one for each norm and position"


def test_many_structures_are_not_counted_exactly() -> None:
    count = counted("grid: {depth: {range: [1, 10000, 1]}, width: [64, 32]}")
    assert (count.points, count.exact) == (20_000, False)


AXES: dict[str, list[Any]] = {
    "norm": ["ln", "none"],
    "position": ["pre", "post"],
    "depth": [0, 2],
    "final_norm": ["auto", "ln", "none"],
    "mixer": ["attention", "mean"],
    "heads": [4, 8],
    "eps": [1e-5, 1e-3],
    "optimizer": ["adam", "sgd"],
    "beta1": [0.9, 0.5],
    "warmup": [0, 1, 2],
}
parts = st.dictionaries(st.sampled_from(sorted(AXES)), st.integers(0, 2), min_size=1, max_size=3).map(
    lambda part: {name: AXES[name][place % len(AXES[name])] for name, place in part.items()}
)
varied = st.dictionaries(st.sampled_from(sorted(AXES)), st.just(None), min_size=1, max_size=4).map(
    lambda names: {name: AXES[name] for name in names}
)
entries = st.fixed_dictionaries({"base": parts, "grid": varied, "exclude": st.lists(parts, max_size=2)})


def named(run: RunConfig, words: dict[str, Any], key: str, value: Any) -> bool:
    """Return whether the value is that of the point: as configured, as `auto` resolves, or in another spelling."""
    return value in (words[key], getattr(run, key)) or (key == "warmup" and {value, words[key]} <= {0, 1})


def applies(words: dict[str, Any], key: str) -> bool:
    """Return whether some other value of the key gives another run."""
    ids = {RunConfig(**words | {key: value}).run_id for value in TRIED[key]}
    return len(ids) > 1


TRIED = AXES | {
    "norm": ["ln", "rms", "none"],
    "position": ["pre", "post", "rezero", "lns"],
    "warmup": [0, 2],
    "mixer": ["mean", "linear"],
}


@given(groups=st.lists(entries, min_size=1, max_size=3))
@settings(max_examples=150, deadline=None)
def test_counts_and_plans_agree_with_brute_force(groups: list[dict[str, Any]]) -> None:
    points, excluded, runs = 0, 0, set()
    for group in groups:
        group["base"] = {name: value for name, value in group["base"].items() if name not in group["grid"]}
        for values in itertools.product(*group["grid"].values()):
            point = group["base"] | dict(zip(group["grid"], values, strict=True))
            run = RunConfig(**point)
            same = run.canonical()
            words = {name: point.get(name, KEYS[name].default) for name in KEYS}
            out = any(
                all(applies(words, key) and named(run, words, key, value) for key, value in part.items())
                for part in group["exclude"]
            )
            points, excluded = points + 1, excluded + out
            if not out:
                runs.add(same.run_id)
    sweep = sweep_file.parse(yaml.safe_dump({"sweeps": groups}), origin="c.yaml")
    count = grid.count(sweep)
    assert (count.points, count.excluded, count.runs) == (points, excluded, len(runs))
    assert count.duplicates == points - excluded - len(runs)
    if runs:
        assert set(grid.plan(sweep).configs) == runs
