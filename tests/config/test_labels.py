"""Labels: the values of a key never look the same, wherever they are shown, and a label selects its value."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
import records as made
from charts import chart, source_of
from edgesweep import CELLS
from hypothesis import given
from hypothesis import strategies as st
from printed import printed
from stored import report_of

from normexp.analysis import comparison, conclusions, edge_tables, explain, frames
from normexp.analysis.cells import summarize
from normexp.analysis.stability_edges import Edge, Finding, Question, Share, Span
from normexp.analysis.tables import cell_table, pivot
from normexp.commands import probe
from normexp.config import grid, overrides, sweep_file
from normexp.config import plan as only
from normexp.config.labels import Labels, exact_text, value_text
from normexp.config.plan import Pivot, Plan, selected
from normexp.plots.chart import Map
from normexp.plots.choice import Choice
from normexp.plots.drawing import draw
from normexp.plots.kinds import compute
from normexp.records.record import RunRecord
from normexp.report import export, sweep_page
from normexp.schemes.network_config import Value
from normexp.terminal import compare as views_of_compare
from normexp.terminal import live

CLOSE = (0.0012341, 0.0012342, 0.0012349)
TEXTS = ("0.0012341", "0.0012342", "0.0012349")
FLOAT32 = float(np.float32(1e-3))
POSITIVE = st.floats(min_value=1e-12, max_value=1e12)


def labelled(key: str, values: Sequence[Value]) -> list[str]:
    labels = Labels(lambda key: values)
    return [labels.text(key, value) for value in values]


def of_lrs(values: Sequence[float] = CLOSE) -> tuple[Plan, dict[str, RunRecord]]:
    """The first learning rate ends at 1.9, the second at 2.0, and the third is non-finite, without and with a norm."""
    plan = made.plan({"lr": values, "norm": ["ln", "none"]}, pivot=Pivot(rows=("lr",), columns=("norm",)), depth=2)
    ends = ["1.9", "2.0", "nan@12"]
    return plan, {
        run_id: record
        for run_id, config in plan.configs.items()
        if (record := made.end(config, ends[values.index(config.lr)])) is not None
    }


@pytest.mark.parametrize(
    ("key", "values", "texts"),
    [
        ("lr", CLOSE, TEXTS),
        ("lr", (1e-4, 3e-4, 10**-2.5, 1e-5), ("0.0001", "0.0003", "0.00316", "1e-05")),
        ("lr", (1e-3, FLOAT32), ("0.001", "0.00100000005")),
        ("lr", (FLOAT32,), ("0.00100000005",)),
        ("lr", (1.0, 1.0001, 3.0), ("1", "1.0001", "3")),
        ("lr", (0.1, 0.1 + 2e-17, 0.2), ("0.1", "0.10000000000000002", "0.2")),
        ("eps", (1e-5, float(np.float32(1e-5))), ("1e-05", "9.9999997e-06")),
        ("eps", (1.0000001e-5, 1.0000002e-5), ("1.0000001e-05", "1.0000002e-05")),
        ("sharpness", (-0.0,), ("0",)),
        ("steps", (1234567, 1234568), ("1234567", "1234568")),
        ("residual", (True, False), ("true", "false")),
    ],
)
def test_a_label_has_enough_digits_to_be_unique(key: str, values: Sequence[Value], texts: Sequence[str]) -> None:
    assert tuple(labelled(key, values)) == tuple(texts)


@given(st.lists(POSITIVE, min_size=1, max_size=12, unique=True), st.sampled_from(["lr", "eps"]))
def test_labels_are_unique_and_select_their_values(values: list[float], key: str) -> None:
    values += [math.nextafter(values[0], 1e13), values[0] * 1.001]
    values = list(dict.fromkeys(values))
    labels = Labels(lambda key: values)
    texts = [labels.text(key, value) for value in values]
    assert len(set(texts)) == len(values)
    for value, text in zip(values, texts, strict=True):
        assert labels.matching(key, value) == [value]
        assert labels.matching(key, float(text)) == [value]
        assert float(text) == pytest.approx(value, rel=5e-3)


@given(POSITIVE)
def test_exact_text_reads_back(value: float) -> None:
    assert float(exact_text(value)) == value
    assert exact_text(value).removesuffix(".0") == exact_text(value)


def test_an_unknown_value_has_a_unique_label() -> None:
    labels = Labels(lambda key: CLOSE)
    assert labels.text("lr", 0.00123411) == "0.00123411"
    assert value_text("lr", 0.0012341) == "0.00123", "alone, it has three digits"


def printed_pivot(plan: Plan, records: dict[str, RunRecord]) -> list[str]:
    (table,) = pivot(plan, frames.runs(plan, records))
    return [row[0] for row in table.rows]


def printed_cells(plan: Plan, records: dict[str, RunRecord]) -> list[str]:
    table = cell_table(plan, summarize(plan, frames.runs(plan, records)))
    return [row[table.header.index("lr")] for row in table.rows]


def set_in_latex(plan: Plan, records: dict[str, RunRecord]) -> list[str]:
    text = export.document("a", "a", pivot(plan, frames.runs(plan, records)), "")
    return [line.split(" & ")[0] for line in text.splitlines() if line.startswith("0.")]


def drawn_as_curves(plan: Plan, records: dict[str, RunRecord]) -> list[str]:
    return [
        line.label.partition("lr ")[2].partition(",")[0] for line in chart("curves", source_of(plan, records)).lines
    ]


def named_live(plan: Plan, records: dict[str, RunRecord]) -> list[str]:
    return [name.partition("lr ")[2].partition(",")[0] for name in live.names_of(plan).values()]


@pytest.mark.parametrize("shown", [printed_pivot, printed_cells, set_in_latex, drawn_as_curves, named_live])
def test_close_values_have_different_labels(
    shown: Callable[[Plan, dict[str, RunRecord]], list[str]],
) -> None:
    labels = shown(*of_lrs())
    assert set(labels) == set(TEXTS)
    assert all(labels.count(text) == len(labels) // 3 for text in TEXTS)


def test_a_map_has_a_column_and_the_exact_number_of_each_value() -> None:
    drawn = compute("map", source_of(*of_lrs()), Choice(x="lr", y="norm"))
    assert isinstance(drawn, Map)
    assert drawn.x.names == TEXTS
    assert len({(square.x, square.y) for square in drawn.squares}) == len(drawn.squares) == 6
    rates = (1e-3, 10**-2.5, 1e-2)
    drawn = compute("map", source_of(*of_lrs(rates)), Choice(x="lr", y="norm"))
    assert isinstance(drawn, Map)
    assert drawn.x.names[1] == "0.00316"
    assert {float(lr) for lr in drawn.data["x_lr"]} == set(rates)


def test_ticks_of_close_values_do_not_overlap() -> None:
    figure = draw(chart("sensitivity", source_of(*of_lrs())))
    figure.draw_without_rendering()
    (ax,) = figure.axes
    shown = [tick for tick in ax.get_xticklabels() if tick.get_text()]
    assert {tick.get_text() for tick in shown} <= set(TEXTS)
    assert {TEXTS[2]} <= {tick.get_text() for tick in shown}
    boxes = [tick.get_window_extent() for tick in shown]
    assert not any(one.overlaps(other) for one, other in pairwise(boxes))
    places = [float(ax.transData.transform((lr, 2.0))[0]) for lr in CLOSE]
    assert places[2] - places[0] > ax.bbox.width / 3, "close values must not share a place"


def test_the_conclusion_names_the_value() -> None:
    plan, records = of_lrs()
    text = conclusions.conclusion(plan, frames.runs(plan, records))
    assert all(label in text for label in TEXTS)


def test_the_page_lists_each_value() -> None:
    plan, records = of_lrs()
    blocks = sweep_page._configuration(report_of(plan, records))
    assert ", ".join(TEXTS) in [item for block in blocks for item in getattr(block, "items", ())]


def test_explain_distinguishes_a_run_from_its_neighbour() -> None:
    _, records = of_lrs()
    dead = next(record for record in records.values() if record.config.lr == CLOSE[2])
    story = "\n".join(explain.story(dead, records.values()))
    assert "lr=0.0012349" in story
    assert "0.0012342" in story or "0.0012341" in story


def test_compare_distinguishes_its_sides() -> None:
    plan, records = of_lrs()
    whole = comparison.side("a", "a", plan, records)
    first, second = comparison.halves(whole, "lr=0.0012341,0.0012342")
    assert (first.name, second.name) == ("lr 0.0012341", "lr 0.0012342")
    text = printed(views_of_compare.comparison(comparison.compare(first, second)), width=200)
    assert [label for label in ("0.0012341", "0.0012342") if label not in text] == []


@pytest.mark.parametrize(
    ("values", "text", "value"),
    [
        (CLOSE, "0.0012342", 0.0012342),
        ((1e-3, 10**-2.5, 1e-2), "0.00316", 10**-2.5),
        ((1e-3, FLOAT32, 1e-2), "0.001", 1e-3),
        ((1e-3, FLOAT32, 1e-2), "0.00100000005", FLOAT32),
    ],
)
def test_only_takes_a_label_and_an_exact_value(values: Sequence[float], text: str, value: float) -> None:
    plan, records = of_lrs(values)
    for wanted in (text, repr(value)):
        shown = source_of(plan, records).only(only.parse_point_filter([f"lr={wanted}"]))
        assert {point.config.lr for point in shown.plan.points} == {value}
        assert {plan.configs[run_id].lr for run_id in selected(plan, [f"lr={wanted}"])} == {value}
        if value != values[-1]:
            half, _ = comparison.halves(comparison.side("a", "a", plan, records), f"lr={wanted},{values[-1]!r}")
            assert {point.config.lr for point in half.points} == {value}


def test_a_value_shown_alone_keeps_the_label_of_the_tables() -> None:
    shown = source_of(*of_lrs()).only({"lr": [CLOSE[1]]})
    assert shown.labels.text("lr", CLOSE[1]) == TEXTS[1]


def test_edge_distinguishes_the_ends_of_a_narrow_bracket() -> None:
    values, learned = (1e-3, FLOAT32, 1.1e-3), (3, 3, 0)
    shares = [Share(value=v, learned=k, seeds=3, failed=0, needed=2) for v, k in zip(values, learned, strict=True)]
    cells = [
        Edge(
            values={"label": "", "eps": eps},
            shares=tuple(shares),
            finding=Finding.BORDER,
            borders=((shares[1], shares[2]),),
            finished=True,
        )
        for eps in (1.0000001e-5, 1.0000002e-5)
    ]
    span = Span(low=1e-3, high=1.1e-3, resolution=1.001, whole=False)
    question = Question(sweep=sweep_file.parse(CELLS, origin="a"), axis="lr", span=span, seeds=(0, 1, 2), needed=2)
    table = edge_tables.table(question, cells)
    assert [row[0] for row in table.rows] == ["1.0000001e-05", "1.0000002e-05"]
    assert [cell.split()[0] for cell in table.rows[0][2:4]] == ["0.00100000005", "0.0011"]


def test_networks_of_a_probe_have_different_names() -> None:
    request = probe.read(["init_gain=1,1.0000001", "depth=1"], 1, None)
    assert list(request.networks) == ["init_gain 1", "init_gain 1.0000001"]


def test_each_scale_has_a_separate_folder() -> None:
    folders = {overrides.folder("a", [], scale) for scale in (0.03, 0.0300000001, 0.5)}
    assert folders == {"a+scale=0.03", "a+scale=0.0300000001", "a+scale=0.5"}


def test_the_ratio_of_two_close_borders_is_not_rounded_to_one() -> None:
    assert edge_tables._floor(1.000967) == "1.00096"
    assert (edge_tables._floor(11.9), edge_tables._floor(1.55)) == ("11", "1.5")


def test_a_warning_distinguishes_learning_rates() -> None:
    text = f"base: {{steps: 10, warmup: 20, eval_every: 5}}\ngrid: {{lr: {list(CLOSE)}}}"
    (warning,) = grid.plan(sweep_file.parse(text, origin="a.yaml")).warnings
    assert all(f"for lr {label}" in warning for label in TEXTS)
