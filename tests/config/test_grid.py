"""Grids: the order of points, and one run for all equivalent points."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from normexp.config import grid, sweep_file
from normexp.config.plan import Plan
from normexp.config.run import RunConfig
from normexp.errors import UserError

LR_SCAN = Path(__file__).parents[2] / "configs" / "lr_scan.yaml"


def planned(text: str, *overrides: str, **rest: Any) -> Plan:
    return grid.plan(sweep_file.parse(text, origin="c.yaml", overrides=overrides), **rest)


def counted(text: str) -> grid.Count:
    return grid.count(sweep_file.parse(text, origin="c.yaml"))


def shown(plan: Plan, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(point.values[name] for name in names) for point in plan.points]


def test_lr_scan() -> None:
    sweep = sweep_file.load(LR_SCAN)
    plan = grid.plan(sweep)
    assert (plan.name, plan.folder, plan.axes) == ("lr_scan", "lr_scan", ("position", "warmup", "lr"))
    product = list(itertools.product(["post", "pre"], [0, 200], [1e-4, 3e-4, 1e-3, 3e-3, 1e-2]))
    assert shown(plan, "position", "warmup", "lr") == product
    assert len(plan.configs) == 20
    assert {(run.depth, run.norm, run.steps) for run in plan.configs.values()} == {(12, "ln", 800)}
    assert plan.source == LR_SCAN.read_text(encoding="utf-8")
    assert grid.count(sweep) == grid.Count(points=20, runs=20, duplicates=0, excluded=0, exact=True)


def test_the_limit_is_on_runs_not_points() -> None:
    text = "base: {norm: none}\ngrid: {position: [pre, post], warmup: [0, 1], seed: [0, 1, 2]}"
    assert len(planned(text, max_runs=3).points) == 12
    with pytest.raises(UserError, match=r"c.yaml: 3 runs \(12 points\).*--max-runs 3"):
        planned(text, max_runs=2)


def test_points_that_share_runs_are_limited_too() -> None:
    text = "base: {norm: none}\ngrid: {eps: {linspace: [1e-9, 1, 999]}}"
    assert len(planned(text, max_runs=100).configs) == 1
    with pytest.raises(UserError, match=r"1 runs \(999 points\).* 990 points.*--max-runs 100"):
        planned(text, max_runs=99)


def test_duplicate_points_share_a_run_and_keep_their_values() -> None:
    plan = planned("grid: {norm: [none, ln], position: [post, pre], warmup: [0, 1]}")
    assert len(plan.points) == 8
    assert len(plan.configs) == 3
    assert shown(plan, "norm", "position", "warmup")[:2] == [("none", "post", 0), ("none", "post", 1)]
    assert {point.config.position for point in plan.points if point.values["norm"] == "none"} == {"pre"}
    assert counted(plan.source) == grid.Count(points=8, runs=3, duplicates=5, excluded=0, exact=True)


def test_zipped_axes_advance_together_and_come_first() -> None:
    plan = planned("grid: {norm: [ln, rms]}\nzip: [{depth: [4, 16, 64], lr: [1e-3, 3e-4, 1e-4]}]")
    assert plan.axes == ("depth", "lr", "norm")
    pairs = [(4, 1e-3), (16, 3e-4), (64, 1e-4)]
    assert shown(plan, "depth", "lr", "norm") == [(*pair, norm) for pair in pairs for norm in ("ln", "rms")]


def test_zipped_values_in_two_spellings_are_one_pair() -> None:
    plan = planned("zip: {norm: [ln, LN, rms, none], lr: [1e-3, 1e-3, 1e-3, 1e-3]}")
    assert shown(plan, "norm", "lr") == [("ln", 1e-3), ("rms", 1e-3), ("none", 1e-3)]
    assert plan.warnings == ("dropped 1 duplicate point",)


def test_pairs_that_become_equal_by_scaling_are_dropped() -> None:
    text = "zip: {steps: [100, 101, 200], warmup: [0, 0, 10]}"
    plan = grid.plan(sweep_file.parse(text, origin="c.yaml", scale=0.1))
    assert shown(plan, "steps", "warmup") == [(10, 0), (20, 1)]
    assert plan.warnings == ("dropped 1 duplicate point",)


@given(
    pairs=st.lists(st.tuples(st.integers(0, 2), st.sampled_from([1e-3, 1e-2])), min_size=1, max_size=6),
    widths=st.lists(st.sampled_from([32, 64]), min_size=1, max_size=3),
)
@settings(max_examples=50, deadline=None)
def test_a_zip_gives_each_pair_once(pairs: list[tuple[int, float]], widths: list[int]) -> None:
    seeds, rates = zip(*pairs, strict=True)
    plan = planned(yaml.safe_dump({"zip": {"seed": [*seeds], "lr": [*rates]}, "grid": {"width": widths}}))
    expected = [(*pair, width) for pair in pairs for width in widths]
    assert shown(plan, "seed", "lr", "width") == list(dict.fromkeys(expected))
    dropped = len(expected) - len(plan.points)
    assert (f"dropped {dropped} duplicate point{'s' * (dropped > 1)}" in plan.warnings) == (dropped > 0)


def test_auto_is_shown_resolved() -> None:
    plan = planned("grid: {norm: [ln, none], final_norm: [auto, rms]}")
    assert shown(plan, "norm", "final_norm") == [("ln", "ln"), ("ln", "rms"), ("none", "none"), ("none", "rms")]


@pytest.mark.parametrize(
    ("exclude", "left"),
    [
        ("{norm: none, position: post}", {("none", "pre"), ("ln", "pre"), ("ln", "post")}),
        ("{norm: none, position: pre}", {("none", "post"), ("ln", "pre"), ("ln", "post")}),
        ("{norm: none}", {("ln", "pre"), ("ln", "post")}),
        ("[{norm: none}, {position: post}]", {("ln", "pre")}),
        ("[{norm: ln, lr: 1e-3}]", {("none", "pre"), ("none", "post")}),
        ("[{final_norm: none, position: post}]", {("none", "pre"), ("ln", "pre")}),
    ],
)
def test_excluded_points(exclude: str, left: set[tuple[str, str]]) -> None:
    text = f"grid: {{norm: [none, ln], position: [pre, post]}}\nexclude: {exclude}"
    plan = planned(text)
    assert set(shown(plan, "norm", "position")) == left
    count = counted(text)
    assert (count.points, count.excluded, count.runs) == (4, 4 - len(left), len(plan.configs))
    assert plan.warnings == ()


@pytest.mark.parametrize(
    ("grid_text", "exclude", "left"),
    [
        ("optimizer: [adam, sgd], beta1: [0.9, 0.99]", "beta1: 0.9", "adam 0.99, sgd 0.9, sgd 0.99"),
        ("optimizer: [adam, sgd], beta1: [0.9, 0.99]", "beta1: 0.99", "adam 0.9, sgd 0.9, sgd 0.99"),
        ("norm: [none, ln], eps: [1e-5, 1e-3]", "eps: 1e-5", "none 1e-05, none 0.001, ln 0.001"),
        ("mixer: [mean, attention], heads: [4, 8]", "heads: 4", "mean 4, mean 8, attention 8"),
        ("position: [pre, mix], post_share: [0.25, 0.5]", "post_share: 0.25", "pre 0.25, pre 0.5, mix 0.5"),
        ("norm: [ln, dyt], dyt_alpha: [0.5, 0.2]", "dyt_alpha: 0.5", "ln 0.5, ln 0.2, dyt 0.2"),
        ("depth: [0, 1], hidden: [128, 8]", "hidden: 128", "0 128, 0 8, 1 8"),
        ("position: [rezero, pre], norm: [ln, rms]", "norm: ln", "rezero ln, rezero rms, pre rms"),
        ("position: [rezero, pre], norm: [none, rms]", "norm: none", "rezero none, rezero rms, pre rms"),
        (
            "position: [rezero, mix], norm: [ln, rms]",
            "norm: ln, position: rezero",
            "rezero ln, rezero rms, mix ln, mix rms",
        ),
        ("depth: [0, 1], norm: [ln, rms]", "norm: rms", "0 ln, 1 ln"),
        ("depth: [0, 1], norm: [ln, rms], final_norm: [ln]", "norm: rms", "0 ln ln, 0 rms ln, 1 ln ln"),
        (
            "dtype: [float32, float16], norm_dtype: [float32, same]",
            "norm_dtype: float32",
            "float32 float32, float32 same, float16 same",
        ),
        ("norm: [none, ln], warmup: [0, 1, 2]", "warmup: 1", "none 2, ln 2"),
        ("norm: [none, ln], final_norm: [auto, rms]", "final_norm: none", "none rms, ln ln, ln rms"),
        ("norm: [ln, rms], final_norm: [auto, ln]", "final_norm: auto", "ln ln, rms ln"),
    ],
)
def test_an_exclusion_needs_its_keys_to_apply(grid_text: str, exclude: str, left: str) -> None:
    text = f"grid: {{{grid_text}}}\nexclude: {{{exclude}}}"
    plan, count = planned(text), counted(text)
    removed = count.points - len(left.split(", "))
    assert [" ".join(map(str, values)) for values in shown(plan, *plan.axes)] == left.split(", ")
    assert [exclusion.points for exclusion in plan.excluded] == [removed]
    assert (count.excluded, count.runs) == (removed, len(plan.configs))


def test_excluding_everything_is_rejected() -> None:
    with pytest.raises(UserError, match=r"^c\.yaml: exclude"):
        planned("base: {depth: 1}\nexclude: [{depth: 1}]")


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("base: {depth: 1}\nexclude: [{depth: 3, norm: ln}]", ["{depth: 3, norm: ln} removes no point"]),
        (
            "grid: {optimizer: [sgd], beta1: [0.9, 0.5]}\nexclude: {beta1: 0.9}",
            ["{beta1: 0.9} removes no point | optimizer: adam, adamw"],
        ),
        (
            "grid: {optimizer: [adam, sgd], beta1: [0.9, 0.5]}\nexclude: {optimizer: sgd, beta1: 0.9}",
            ["{optimizer: sgd, beta1: 0.9} removes no point | optimizer: adam, adamw"],
        ),
        (
            "base: {beta1: 0.9}\ngrid: {optimizer: [adam, sgd], seed: [0, 1]}\nexclude: {beta1: 0.9}",
            ["{beta1: 0.9} removes every point with optimizer: adam"],
        ),
        ("grid: {lr: [1, 2], depth: [1, 2]}\nexclude: {lr: 1}", []),
        ("zip: {lr: [1, 2], depth: [1, 2]}\nexclude: {lr: 1}", []),
        (
            "sweeps: [{label: a, grid: {lr: [1, 2]}, exclude: {depth: 20}}, {label: b, exclude: {lr: 0.0010001}}]",
            ["{depth: 20} of 'a' removes every point", "{lr: 0.0010001} of 'b' removes no point"],
        ),
    ],
)
def test_an_exclusion_with_an_unexpected_effect_draws_a_warning(text: str, facts: list[str]) -> None:
    warnings = planned(text).warnings
    assert len(warnings) == len(facts)
    for warning, expected in zip(warnings, facts, strict=True):
        assert all(fact in warning for fact in expected.split(" | ")), warning


def test_each_exclusion_is_counted_regardless_of_the_others() -> None:
    text = (
        "grid: {norm: [none, ln], lr: [1, 2], seed: [0, 1, 1]}\nexclude: [{norm: none}, {lr: 2.0}, {lr: 2, norm: none}]"
    )
    plan = planned(text)
    assert [(exclusion.entry, exclusion.points) for exclusion in plan.excluded] == [
        ("{norm: none}", 4),
        ("{lr: 2.0}", 4),
        ("{lr: 2.0, norm: none}", 2),
    ]
    assert len(plan.points) == 2


def test_conflicting_values_are_named_unless_excluded() -> None:
    text = "grid: {width: [64, 48], heads: [4, 5, 3], seed: [0, 1], order: [2, 16]}"
    for use in (planned, counted):
        with pytest.raises(UserError) as caught:
            use(text)
        complaints = caught.value.complaints
        text_of = "\n".join(complaints)
        assert "c.yaml: heads: 5 does not divide width 64 (at width 64, heads 5, order 2)" in complaints
        assert "order: 16" in text_of
        assert "(at width 64, heads 4, order 16)" in text_of
        assert len(complaints) == 5
    left = f"{text}\nexclude: [{{heads: 5}}, {{order: 16}}, {{heads: 3, width: 64}}]"
    assert len(planned(left).points) == 6
    assert counted(left).runs == 6


def test_many_conflicts_are_cut() -> None:
    with pytest.raises(UserError) as caught:
        planned("grid: {heads: {range: [65, 164, 1]}}")
    assert len(caught.value.complaints) == 31
    assert caught.value.complaints[-1] == "and 70 more"


def test_a_warm_up_longer_than_training_draws_a_warning() -> None:
    plan = planned("base: {steps: 20, lr: 0.01}\ngrid: {warmup: [0, 19, 20, 21]}")
    (warning,) = plan.warnings
    assert all(fact in warning for fact in ("warmup 21", "steps 20", "0.00952 for lr 0.01"))
    assert len(plan.configs) == 4


SWEEPS = """
base: {depth: 2, steps: 10, norm: rms}
sweeps:
- {label: as written, base: {mixer: linear, norm: ln}, grid: {seed: [0, 1], lr: [1e-3]}}
- {label: as described, base: {mixer: mean}, grid: {steps: [10, 20]}}
- {label: as described, base: {mixer: mean, steps: 20}}
"""


def test_a_union_of_sweeps() -> None:
    plan = planned(SWEEPS)
    assert plan.axes == ("lr", "steps", "seed")
    assert [point.label for point in plan.points] == ["as written"] * 2 + ["as described"] * 2
    assert shown(plan, "steps", "seed") == [(10, 0), (10, 1), (10, 0), (20, 0)]
    assert [point.config.mixer for point in plan.points] == ["linear", "linear", "mean", "mean"]
    assert plan.warnings == ("dropped 1 duplicate point",)
    assert counted(SWEEPS) == grid.Count(points=5, runs=4, duplicates=1, excluded=0, exact=True)


def test_without_labels_what_differs_between_sweeps_is_an_axis() -> None:
    plan = planned(re.sub(r"label: [a-z ]+, ", "", SWEEPS))
    assert plan.axes == ("lr", "steps", "norm", "mixer", "seed")
    assert shown(plan, "mixer", "norm", "steps", "seed") == [
        ("linear", "ln", 10, 0),
        ("linear", "ln", 10, 1),
        ("mean", "rms", 10, 0),
        ("mean", "rms", 20, 0),
    ]


def test_tables_and_published_numbers_name_axes() -> None:
    text = """
grid: {lr: [1e-3, 1e-2]}
table: {rows: [lr], columns: depth}
published:
- {where: {lr: 1e-3, norm: ln}, text: 2.280, source: section 6.2}
- {where: {lr: 3e-3}, text: "2.3", source: section 6.3}
"""
    plan = planned(text)
    assert plan.axes == ("lr", "depth", "norm")
    assert plan.pivot is not None
    assert (plan.pivot.rows, plan.pivot.columns) == (("lr",), ("depth",))
    assert [(figure.where, figure.text) for figure in plan.published] == [
        ({"lr": 1e-3, "norm": "ln"}, "2.280"),
        ({"lr": 3e-3}, "2.3"),
    ]
    (warning,) = plan.warnings
    assert "'2.3' of section 6.3" in warning


def test_a_plan_defined_in_code_equals_that_of_its_source() -> None:
    groups = [
        ("without", {"norm": "none", "depth": 20, "lr": 1e-5, "seed": [0, 1, 2]}),
        ("layer: norm", {"norm": "ln", "residual": False, "seed": (0, 1)}),
        ("", {}),
    ]
    plan = grid.plan_of(name="collapse", title="20 layers: none, “ln”", groups=groups)
    again = planned(plan.source)
    assert again == plan
    assert [point.label for point in plan.points] == ["without"] * 3 + ["layer: norm"] * 2 + [""]
    assert plan.title == "20 layers: none, “ln”"
    assert plan.points[0].config == RunConfig(norm="none", depth=20, lr=1e-5).canonical()
    with pytest.raises(UserError, match=r"collapse:.*base.lr: -1.0"):
        grid.plan_of(name="collapse", title="t", groups=[("", {"lr": -1.0})])


PROGRAM = """
import sys
from normexp.config import sweep_file, grid
plan = grid.plan(sweep_file.parse(sys.stdin.read(), origin="c.yaml"))
print(list(plan.configs), [sorted(point.values.items()) for point in plan.points], "torch" in sys.modules)
"""


def test_ids_and_order_are_independent_of_hash_seed_and_optimization() -> None:
    text = "grid: {norm: [ln, none, rms], lr: [1e-3, 1e-2]}\nexclude: [{norm: none, lr: 1e-2}]\nbase: {depth: 2}"
    outputs = set()
    for seed, flags in (("1", []), ("2", ["-O"])):
        command = [sys.executable, *flags, "-c", PROGRAM]
        env = os.environ | {"PYTHONHASHSEED": seed}
        outputs.add(subprocess.run(command, input=text, env=env, capture_output=True, text=True, check=True).stdout)
    (output,) = outputs
    assert output.startswith(str(list(planned(text).configs)))
    assert output.endswith("False\n")


@pytest.mark.parametrize("keys", [("depth", "norm", "lr"), ("lr", "depth", "norm")])
def test_ids_are_independent_of_the_order_of_keys(keys: tuple[str, ...]) -> None:
    texts = {"depth": "2", "norm": "rms", "lr": "[1e-3, 3e-3]"}
    plan = planned("grid:\n" + "".join(f"  {key}: {texts[key]}\n" for key in keys))
    assert set(plan.configs) == {RunConfig(depth=2, norm="rms", lr=lr).run_id for lr in (1e-3, 3e-3)}
