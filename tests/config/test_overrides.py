"""Overrides have the same meaning as the same text in the YAML."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from normexp.config import grid, sweep_file
from normexp.config.overrides import _shown
from normexp.config.plan import Plan
from normexp.config.run import KEYS
from normexp.errors import UserError

SCAN = """
name: scan
base: {depth: 12, steps: 800}
grid:
  position: [post, pre]
  lr: [1e-4, 3e-4, 1e-3]
"""


def planned(text: str, *overrides: str, **rest: Any) -> Plan:
    return grid.plan(sweep_file.parse(text, origin="c.yaml", overrides=overrides, **rest))


@pytest.mark.parametrize(
    ("override", "old", "new", "folder"),
    [
        ("lr=1e-5", "[1e-4, 3e-4, 1e-3]", "1e-5", "scan+lr=1e-05"),
        ("lr=1e-3,3e-4", "[1e-4, 3e-4, 1e-3]", "[1e-3, 3e-4]", "scan+lr=0.001,0.0003"),
        ("lr=[1e-3, 3e-4]", "[1e-4, 3e-4, 1e-3]", "[1e-3, 3e-4]", "scan+lr=0.001,0.0003"),
        (
            "lr={logspace: [1e-4, 1e-2, 5]}",
            "[1e-4, 3e-4, 1e-3]",
            "{logspace: [1e-4, 1e-2, 5]}",
            "scan+lr=logspace-1e-4-1e-2-5",
        ),
        ("steps=1e2", "800", "1e2", "scan+steps=100"),
        (" position = PRE ", "[post, pre]", "PRE", "scan+position=pre"),
        ("norm=~", "depth: 12", "depth: 12, norm: ~", "scan+norm=none"),
        ("residual=No", "depth: 12", "depth: 12, residual: No", "scan+residual=false"),
        ("seed=0,1", "grid:", "grid:\n  seed: [0, 1]", "scan+seed=0,1"),
        ('name="a,b"', "scan", '"a,b"', "a,b"),
        ("name=1e3", "scan", "1e3", "1e3"),
        ("title=a,b", "name: scan", "name: scan\ntitle: a,b", "scan"),
    ],
)
def test_an_override_is_the_same_text_in_the_file(override: str, old: str, new: str, folder: str) -> None:
    by_override, by_file = planned(SCAN, override), planned(SCAN.replace(old, new))
    assert set(by_override.configs) == set(by_file.configs)
    assert set(by_override.axes) == set(by_file.axes)
    assert (by_override.name, by_override.title) == (by_file.name, by_file.title)
    assert len(by_override.points) == len(by_file.points)
    assert by_override.folder == folder


def test_an_axis_keeps_its_place_and_a_new_one_comes_last() -> None:
    assert planned(SCAN, "position=pre").axes == ("position", "lr")
    assert planned(SCAN, "depth=2,4").axes == ("position", "lr", "depth")
    assert planned(SCAN, "depth=2").axes == ("position", "lr")


def test_an_override_reaches_every_group() -> None:
    text = "base: {lr: 1}\nsweeps: [{label: a, base: {steps: 10}}, {label: b, grid: {steps: [10, 20]}}, {label: c}]"
    plan = planned(text, "steps=5", "lr=2")
    assert {(run.steps, run.lr) for run in plan.configs.values()} == {(5, 2.0)}
    assert [point.label for point in plan.points] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("overrides", "facts"),
    [
        (["lrr=1"], ["override lrr=1: | did you mean lr?"]),
        (["grid.lr=1"], ["override grid.lr=1: | did you mean lr?"]),
        (["grid={lr: 1}"], ["override grid={lr: 1}: | 'grid'"]),
        (["lr="], ["override lr=: | write lr=value"]),
        (["norm= # none"], ["override norm= # none: | write norm=value"]),
        (["lr"], ["override lr: | write key=value"]),
        (["lr=1e-3x"], ["override lr=1e-3x: lr: '1e-3x'"]),
        (["lr=1e−3"], ["override lr=1e−3: lr: '1e−3' | write 1e-3"]),
        (["lr=1e-3,1e−2"], ["lr, value 2 of 2: '1e−2' | write 1e-2"]),
        (["lr=0,5"], ["lr: 0.0 | write lr=0.5"]),
        (["post_share=0,5"], ["5.0 | write post_share=0.5"]),
        (["beta1=0,95"], ["write beta1=0.95"]),
        (["lr=1e-3,x"], ["override lr=1e-3,x: lr, value 2 of 2: 'x'"]),
        (['depth="8"'], ["depth: '8' | without quotes"]),
        (["lr=[1"], ["override lr=[1: not YAML"]),
        (["lr=1\nbase: 3"], ["override lr=1 base: 3: not YAML"]),
        (["title=a: b"], ["title: | not a mapping"]),
        (["name=a/b"], ["override name=a/b: name: 'a/b' | path separator"]),
        (["lr=\udcff"], ["override lr=?: not YAML"]),
        (["lr=1", "lr=2"], ["override lr=2: lr | twice"]),
        (["deph=1", "lr=0"], ["override deph=1: ", "override lr=0: lr: 0.0"]),
        (["heads=5", "lr=0"], ["override lr=0: lr: 0.0", "c.yaml: heads: 5 | width 64"]),
        (["heads=5", "width=x"], ["override width=x: width: 'x'"]),
    ],
)
def test_invalid_overrides_are_named(overrides: list[str], facts: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        planned(SCAN, *overrides)
    assert len(caught.value.complaints) == len(facts)
    for complaint, expected in zip(caught.value.complaints, facts, strict=True):
        assert all(fact in complaint for fact in expected.split(" | ")), complaint


def test_two_values_that_look_like_a_decimal_draw_a_warning() -> None:
    plan = planned(SCAN, "weight_decay=0,1")
    assert {run.weight_decay for run in plan.configs.values()} == {0.0, 1.0}
    (warning,) = plan.warnings
    assert warning.startswith("override weight_decay=0,1: weight_decay: ")
    assert "write weight_decay=0.1" in warning
    assert planned(SCAN, "lr=1,2", "seed=0,1").warnings == ()


def test_repeated_values_of_an_override_are_a_single_point() -> None:
    plan = planned(SCAN, "lr=1e-3,1e-3", "seed=0,1")
    assert [run.lr for run in plan.configs.values()] == [1e-3] * 4
    assert plan.folder == "scan+lr=0.001+seed=0,1"
    assert plan.warnings == (
        "override lr=1e-3,1e-3: lr: 1e-3 is listed twice",
        "dropped 4 duplicate points",
    )


def test_errors_of_overrides_and_file_are_reported_together() -> None:
    for text, words in [("base: {dept: 1}", "base.dept"), ("base: {dept", "not YAML"), ("", "empty")]:
        with pytest.raises(UserError) as caught:
            planned(text, "foo=1")
        first, second = caught.value.complaints
        assert "override foo=1" in first
        assert words in second


def test_a_zipped_axis_cannot_be_overridden() -> None:
    text = "zip: [{lr: [1, 2], depth: [3, 4]}]"
    with pytest.raises(UserError, match=r"override lr=1: lr .*zip.*depth"):
        planned(text, "lr=1")
    assert len(planned(text, "steps=1").points) == 2


def test_the_folder_name_ignores_the_order_of_overrides_and_stays_short() -> None:
    assert planned(SCAN, "steps=100", "depth=2", scale=0.5).folder == "scan+depth=2+steps=100+scale=0.5"
    assert planned(SCAN, "depth=2", "steps=100", scale=0.5).folder == "scan+depth=2+steps=100+scale=0.5"
    long = [planned(SCAN, f"lr={','.join(f'1.{digit}{place}' for place in range(1, 30))}").folder for digit in (1, 2)]
    assert len(set(long)) == 2
    assert all(len(folder) <= 84 and folder.startswith("scan+lr=") for folder in long)
    assert not any(set(folder) & set('/\\ :*?"<>|[]{}') for folder in long)
    seeds = planned(SCAN, "lr=[" + ",".join(f"1e-{place}" for place in range(1, 25)) + "]").folder
    assert not set(seeds) & set("/\\ []{}")


def test_an_override_of_the_shipped_config() -> None:
    path = Path(__file__).parents[2] / "configs" / "lr_scan.yaml"
    sweep = sweep_file.load(path, ["steps=100"], scale=0.1)
    plan = grid.plan(sweep)
    assert plan.folder == "lr_scan+steps=100+scale=0.1"
    assert {(run.steps, run.eval_every) for run in plan.configs.values()} == {(10, 50)}
    assert {run.warmup for run in plan.configs.values()} == {0, 20}
    assert len(plan.warnings) == 1
    assert plan.warnings[0].startswith("warmup 20 ")
    assert "5e-05 for lr 0.0001" in plan.warnings[0]


WORDS = """0 1 -1 4 5 64 1e-3 1E-3 1e3 1.0e2 4.5 08 0777 1:30 1_000 nan .inf 1e999 -0.0 ~ null None none true No ln rms
pre LN layernorm adam auto mean '8' "x" 1e-3x !!float !!int !!binary !foo &a *a np.log(3) | > " ' [ ] { } # %x"""
ONE = st.one_of(st.sampled_from(WORDS.split()), st.integers().map(str), st.floats().map(repr))
SEVERAL = st.lists(ONE | ONE.map("[{}]".format), max_size=4).map(lambda items: f"[{', '.join(items)}]")
BUILT = st.tuples(st.sampled_from(["logspace", "linspace", "range", "lr"]), SEVERAL).map(
    lambda parts: f"{{{parts[0]}: {parts[1]}}}"
)


def result(text: str, *overrides: str) -> tuple[list[str], list[str]]:
    """Return run ids, and error messages without the place."""
    try:
        return list(grid.plan(sweep_file.parse(text, origin="c.yaml", overrides=overrides), max_runs=100).configs), []
    except UserError as error:
        starts = ("c.yaml:2: grid.", "c.yaml: ", *(f"override {_shown(text)}: " for text in overrides))
        lines = []
        for line in (re.sub(r" \(at .*", "", complaint) for complaint in error.complaints):
            start = next((start for start in starts if line.startswith(start)), "")
            lines.append("not YAML" if ": not YAML:" in line else line.removeprefix(start))
        return [], lines


@settings(max_examples=150, deadline=None)
@given(key=st.sampled_from([*KEYS]), text=ONE | SEVERAL | BUILT)
def test_any_override_means_what_its_text_means_in_the_file(key: str, text: str) -> None:
    by_file, by_override = result(f"grid:\n  {key}: {text}\n"), result("title: x", f"{key}={text}")
    if text.startswith(("#", "&")):
        assert "the value of" in by_override[1][0], "an empty value of an override is a mistake"
    else:
        assert by_override == by_file
