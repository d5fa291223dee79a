"""The options of a figure, its axes, and the figures of a report."""

from __future__ import annotations

from dataclasses import replace

import pytest
import records as made
from charts import chart, source_of

from normexp.config import plan as only
from normexp.config.labels import ALONE
from normexp.errors import UserError
from normexp.plots.chart import LINEAR, LOG, NAMES, value_axis
from normexp.plots.choice import Source
from normexp.plots.kinds import KINDS, fitting


@pytest.mark.parametrize(
    ("kind", "choice", "facts"),
    [
        ("sensitivity", {"x": "dept"}, "--x dept: .*depth"),
        ("sensitivity", {"x": "zzz"}, "--x zzz: .*depth, lr"),
        ("map", {"x": "norm"}, "--x norm: .*ln.*depth and lr"),
        ("map", {"y": "seed"}, "--y seed: .*depth and lr"),
        ("map", {"x": "lr", "y": "lr"}, "--x and --y are both lr"),
        ("map", {"facets": ("lr",)}, "two axes.*facets"),
        ("map", {"x": "lr", "y": "depth", "facets": ("lr",)}, "--facet lr: "),
        ("curves", {"x": "lr"}, "--x lr: "),
        ("depth", {"y": "lr"}, "--y lr: .*loss or fraction"),
        ("speed", {"y": "loss"}, "--y loss: .*speed"),
        ("signal", {"by_fraction": True}, "--color: .*signal"),
        ("pie", {}, "--kind pie: (.*\n)+ *curves: "),
    ],
)
def test_impossible_figures_are_errors(kind: str, choice: dict[str, object], facts: str) -> None:
    plan = made.plan({"depth": [2, 4], "lr": [1e-3, 1e-2], "norm": ["ln"], "seed": [0, 1]})
    with pytest.raises(UserError, match=facts):
        chart(kind, source_of(plan, {}), **choice)


def test_only_some_runs(source: Source) -> None:
    found = chart("curves", source.only(only.parse_point_filter(["norm=none", "lr=1e-3,1e-2"])))
    assert {one.label for one in found.lines} == {"lr 0.001", "lr 0.01"}
    assert len(source.only(only.parse_point_filter(["depth=4"])).plan.points) == 12, "a key that is no axis"
    with pytest.raises(UserError, match=r"--only .*norm is ln, none; lr is 0.001, 0.01"):
        source.only(only.parse_point_filter(["norm=ln", "lr=0.5"]))
    with pytest.raises(UserError) as error:
        only.parse_point_filter(["norm", "nrm=ln", "lr=fast"])
    facts = ("key=value", "norm", "fast")
    assert [fact in text for fact, text in zip(facts, error.value.complaints, strict=True)] == [True] * 3


def test_a_report_has_what_fits_the_axes(source: Source) -> None:
    def names(found: Source) -> list[str]:
        return [name for name, *_ in fitting(found)]

    assert names(source) == ["curves", "sensitivity", "signal"]
    plan = made.plan({"depth": [2, 4, 8], "lr": [1e-3, 1e-2]})
    assert names(source_of(plan, {})) == ["curves", "sensitivity", "map", "depth"], "no layer is measured"
    labelled = replace(plan, points=tuple(replace(point, label=str(point.values["depth"])) for point in plan.points))
    assert names(source_of(labelled, {})) == ["curves", "sensitivity", "depth"], "labels have axes of their own"
    assert (KINDS["sensitivity"].file, KINDS["map"].file) == ("lr_sensitivity", "outcome_map")
    assert len({kind.file for kind in KINDS.values()}) == len(KINDS)


def test_an_axis_is_logarithmic_over_decades_and_of_names_for_words() -> None:
    assert [value_axis("depth", values, ALONE).scale for values in ([2, 4, 8], [2, 40], [0, 40], ["a", "b"])] == [
        LINEAR,
        LOG,
        LINEAR,
        NAMES,
    ]
    assert value_axis("residual", [True, False], ALONE).names == ("true", "false")
