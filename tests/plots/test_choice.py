"""What a figure may be asked to show, its axes, and which figures a report has."""

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
    ("kind", "choice", "told"),
    [
        ("sensitivity", {"x": "dept"}, "--x dept: no such axis: did you mean depth?"),
        ("sensitivity", {"x": "zzz"}, "--x zzz: no such axis: known are depth, lr"),
        ("map", {"x": "norm"}, "--x norm: it is ln in every run that the figure is of: what varies is depth and lr"),
        ("map", {"y": "seed"}, "--y seed: a figure is over seeds: what varies is depth and lr"),
        ("map", {"x": "lr", "y": "lr"}, "--x and --y are both lr: choose two axes"),
        ("map", {"facets": ("lr",)}, "a map needs two axes that vary beside its facets"),
        ("map", {"x": "lr", "y": "depth", "facets": ("lr",)}, "--facet lr: it is an axis of the panels already"),
        ("curves", {"x": "lr"}, "--x lr: the x axis of curves is fixed"),
        ("depth", {"y": "lr"}, "--y lr: no y axis of depth: choose loss or fraction"),
        ("speed", {"y": "loss"}, "--y loss: no y axis of speed: leave it out"),
        ("signal", {"by_fraction": True}, "--color: signal has no colour for outcomes"),
        ("pie", {}, "--kind pie: no such figure; there are:"),
    ],
)
def test_a_figure_that_cannot_be_is_told(kind: str, choice: dict[str, object], told: str) -> None:
    plan = made.plan({"depth": [2, 4], "lr": [1e-3, 1e-2], "norm": ["ln"], "seed": [0, 1]})
    with pytest.raises(UserError) as fault:
        chart(kind, source_of(plan, {}), **choice)
    assert fault.value.complaints[0].startswith(told)


def test_only_some_runs(source: Source) -> None:
    found = chart("curves", source.only(only.parse_point_filter(["norm=none", "lr=1e-3,1e-2"])))
    assert {one.label for one in found.lines} == {"lr 0.001", "lr 0.01"}
    assert len(source.only(only.parse_point_filter(["depth=4"])).plan.points) == 12, "a key that is no axis"
    with pytest.raises(UserError, match=r"--only leaves no run: norm is ln, none; lr is 0.001, 0.01"):
        source.only(only.parse_point_filter(["norm=ln", "lr=0.5"]))
    with pytest.raises(UserError) as fault:
        only.parse_point_filter(["norm", "nrm=ln", "lr=fast"])
    assert [text.partition(": ")[2][:20] for text in fault.value.complaints] == [
        "write key=value",
        "nrm is no key: did y",
        "'fast' is not a numb",
    ]


def test_a_report_has_what_fits_the_axes(source: Source) -> None:
    def names(found: Source) -> list[str]:
        return [name for name, *_ in fitting(found)]

    assert names(source) == ["curves", "sensitivity", "signal"]
    plan = made.plan({"depth": [2, 4, 8], "lr": [1e-3, 1e-2]})
    assert names(source_of(plan, {})) == ["curves", "sensitivity", "map", "depth"], "no layer is measured"
    labelled = replace(plan, points=tuple(replace(point, label=str(point.values["depth"])) for point in plan.points))
    assert names(source_of(labelled, {})) == ["curves", "sensitivity", "depth"], "labels have axes of their own"
    assert [kind.file for kind in KINDS.values()] == [
        "curves",
        "lr_sensitivity",
        "outcome_map",
        "depth",
        "signal",
        "speed",
    ]


def test_an_axis_is_logarithmic_over_decades_and_of_names_for_words() -> None:
    assert [value_axis("depth", values, ALONE).scale for values in ([2, 4, 8], [2, 40], [0, 40], ["a", "b"])] == [
        LINEAR,
        LOG,
        LINEAR,
        NAMES,
    ]
    assert value_axis("residual", [True, False], ALONE).names == ("true", "false")
