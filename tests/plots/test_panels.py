"""The distribution of lines over panels, their names, and the number of omitted lines."""

from __future__ import annotations

import records as made
from charts import chart, source_of

from normexp.plots.chart import LABELS, PANELS, Layout, place


def names(layout: Layout[object]) -> tuple[set[str], set[str]]:
    return {one.panel for one in layout.placed}, {one.label for one in layout.placed}


def items(**axes: list[str]) -> list[tuple[dict[str, str], object]]:
    found: list[dict[str, str]] = [{}]
    for key, values in axes.items():
        found = [{**texts, key: value} for texts in found for value in values]
    return [(texts, None) for texts in found]


def test_many_lines_are_spread_over_panels() -> None:
    many = items(depth=["4", "8", "12"], norm=["ln", "rms"], lr=["1", "2", "3", "4", "5", "6"])
    layout = place(many)
    assert names(layout) == (
        {f"depth {depth}, norm {norm}" for norm in ("ln", "rms") for depth in (4, 8, 12)},
        {f"lr {lr}" for lr in range(1, 7)},
    )
    assert (layout.columns, layout.omitted) == (2, 0), "rows by depth, columns by norm"
    by_norm = place(many, ["norm"])
    assert names(by_norm)[0] == {"norm ln", "norm rms"}
    assert by_norm.omitted == 2 * (18 - LABELS)


def test_lines_that_would_be_alone_stand_together() -> None:
    eleven = items(position=[str(number) for number in range(11)])
    assert names(place(eleven)) == ({""}, {f"position {number}" for number in range(11)})


def test_labels_stand_in_panels_of_their_own_with_the_keys_that_vary_there() -> None:
    norms = [({"label": "norms", "norm": norm, "position": "pre"}, norm) for norm in ("ln", "rms")]
    positions = [({"label": "positions", "norm": "ln", "position": name}, name) for name in ("pre", "post")]
    assert [(one.panel, one.label, one.item) for one in place(norms + positions).placed] == [
        ("norms", "norm ln", "ln"),
        ("norms", "norm rms", "rms"),
        ("positions", "position pre", "pre"),
        ("positions", "position post", "post"),
    ]


def test_a_line_has_one_name_in_all_panels_though_one_of_them_has_more_lines() -> None:
    norms = [
        ({"label": "", "norm": norm, "depth": depth, "lr": "0.001"}, 0) for norm in ("none", "ln") for depth in "68"
    ]
    layout = place([*norms, ({"label": "", "norm": "none", "depth": "8", "lr": "0.01"}, 0)], ["norm"])
    ln, none = ({one.label for one in layout.placed if one.panel == f"norm {norm}"} for norm in ("ln", "none"))
    assert ln == {"depth 6, lr 0.001", "depth 8, lr 0.001"} == none - {"depth 8, lr 0.01"}


def test_too_many_lines_are_left_out_and_counted() -> None:
    plan = made.plan({"lr": [index * 1e-5 for index in range(1, 41)]})
    found = chart("curves", source_of(plan, {run_id: made.done(c, 1.9) for run_id, c in plan.configs.items()}))
    drawn = {(one.panel, one.label) for one in found.lines}
    assert len({panel for panel, _ in drawn}) <= PANELS
    assert found.notes == (f"{40 - len(drawn)} of 40 lines not drawn",)
