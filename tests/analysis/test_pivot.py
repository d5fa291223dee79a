"""Pivot tables: the text of cells, the order of rows and columns, published values, and labels."""

from __future__ import annotations

import math

import pytest
import records as made
from records import runs_of, seeds

from normexp.analysis.cells import cells
from normexp.analysis.tables import SEVERAL, cell_text, pivot
from normexp.config.labels import heading, listed, loss_text, range_text, value_text
from normexp.config.plan import Pivot, Published


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        (["1.865"], "1.865"),
        (["plateau"], "plateau 4.07"),
        (["nan@12"], "nan @12"),
        (["diverged"], "diverged 1e+09, rising"),
        (["unsettled"], "unsettled 100, falling"),
        (["timeout"], "timeout"),
        (["pending"], "pending"),
        (["slow"], "plateau 4.07, falling"),
        (["slow", "slow"], "plateau 4.065 ± 0.000 (2), falling"),
        (["slow", "plateau", "slow"], "plateau 4.065 ± 0.000 (3), 2 falling"),
        (["slow", "1.6"], "1.600 (1/2); plateau 4.065 (1/2), falling"),
        (["2.5654", "2.5654"], "2.565 ± 0.000 (2)"),
        (["1.85", "1.87", "1.89"], "1.870 ± 0.020 (3)"),
        (["1.87", "nan@12", "nan@33"], "1.870 (1/3); 2/3 nan @12–33"),
        (["nan@12", "inf@12"], "2/2 nan/inf @12"),
        (["pending", "plateau", "1.6"], "1.600 (1/3); plateau 4.065 (1/3); 1/3 pending"),
    ],
)
def test_cell_text(ends: list[str], text: str) -> None:
    plan, runs = seeds(*ends)
    assert cell_text(cells(plan, runs)[0]) == text


def test_pivot_is_laid_out_as_asked_with_the_published_text_beside() -> None:
    plan = made.plan(
        {"norm": ["none", "ln"], "lr": [1e-3, 3.16227766e-3], "warmup": [0, 200]},
        pivot=Pivot(rows=("norm",), columns=("lr",)),
        published=[Published(where={"norm": "none", "lr": 1e-3}, text="NaN", source="Table 2")],
    )
    ends = ["nan@12", "nan@13", "nan@4", "nan@5", "1.6", "1.7", "1.8", "plateau"]
    first, second = pivot(plan, runs_of(plan, ends))
    assert (first.title, second.title) == ("warmup 0", "warmup 200")
    assert first.header == ("norm", "lr 0.001", "lr 0.00316")
    assert first.rows == (("none", "nan @12 [NaN]", "nan @4"), ("ln", "1.600", "1.800"))
    assert second.rows == (("none", "nan @13 [NaN]", "nan @5"), ("ln", "1.700", "plateau 4.07"))
    assert (first.note, second.note) == ("", "In brackets: Table 2."), "once for both"


def test_the_note_on_several_seeds_is_given_once() -> None:
    axes = {"norm": ["ln", "rms"], "warmup": [0, 9], "seed": [0, 1]}
    plan = made.plan(
        axes,
        pivot=Pivot(rows=("norm",), columns=()),
        published=[Published(where={"norm": "ln", "warmup": 0}, text="2.44", source="Table 2")],
    )
    notes = [table.note for table in pivot(plan, runs_of(plan, ["1.6"] * 8))]
    assert notes == ["In brackets: Table 2.", SEVERAL]
    plan = made.plan(axes | {"seed": [0]}, pivot=Pivot(rows=("norm",), columns=()))
    assert [table.note for table in pivot(plan, runs_of(plan, ["1.6"] * 4))] == ["", ""]
    plan = made.plan(axes | {"lr": []}, pivot=Pivot(rows=("norm",), columns=()))
    assert pivot(plan, runs_of(plan, [])) == []


def test_pivot_rows_stand_together() -> None:
    plan = made.plan(
        {"position": ["post", "pre"], "norm": ["ln", "rms"]}, pivot=Pivot(rows=("norm", "position"), columns=())
    )
    (table,) = pivot(plan, runs_of(plan, ["1.6", "1.7", "1.8", "1.9"]))
    assert table.header == ("norm / position", "final loss")
    assert [row for row, *_ in table.rows] == ["ln, post", "ln, pre", "rms, post", "rms, pre"]


def test_numbers_ascend_and_words_come_as_they_were_asked() -> None:
    plan = made.plan(
        {"norm": ["rms", "ln"], "warmup": [9, 100, 0], "lr": [1e-3, 1e-2, 3e-4]},
        pivot=Pivot(rows=("norm", "warmup"), columns=("lr",)),
    )
    (table,) = pivot(plan, runs_of(plan, ["1.6"] * 18))
    assert table.header == ("norm / warmup", "lr 0.0003", "lr 0.001", "lr 0.01")
    assert [row for row, *_ in table.rows] == [f"{norm}, warmup {n}" for norm in ("rms", "ln") for n in (0, 9, 100)]


def test_pivot_rows_are_headed_by_the_keys_that_vary_in_their_table() -> None:
    plan = made.plan({"norm": ["ln", "rms"]}, lr=3e-3, pivot=Pivot(rows=("position", "norm"), columns=("lr",)))
    (table,) = pivot(plan, runs_of(plan, ["1.6", "1.7"]))
    assert (table.header[0], table.rows[0][0]) == ("norm", "ln")
    plan = made.plan({"norm": ["ln"]}, pivot=Pivot(rows=("position", "norm"), columns=("lr",)))
    (table,) = pivot(plan, runs_of(plan, ["1.6"]))
    assert (table.header[0], table.rows[0][0]) == ("position / norm", "pre, ln")


def test_pivot_of_a_key_that_is_no_axis_any_more() -> None:
    plan = made.plan({"norm": ["ln", "rms"]}, lr=3e-3, pivot=Pivot(rows=("norm",), columns=("lr",)))
    (table,) = pivot(plan, runs_of(plan, ["1.6", "1.7"]))
    assert table.header == ("norm", "lr 0.003")


def test_labels() -> None:
    assert [value_text("lr", lr) for lr in (1e-3, 3.16227766e-3, 1e-5)] == ["0.001", "0.00316", "1e-05"]
    assert value_text("residual", True) == "true"
    words = ("position", "norm", "final_norm", "qk_norm", "lr")
    assert heading(words, ("pre", "none", "ln", "none", 0.01)) == "pre, none, final_norm ln, qk_norm none, lr 0.01"
    losses = {1.8654: "1.865", 812.3: "812", 1.2e9: "1.2e+09", math.inf: "inf", math.nan: ""}
    assert [loss_text(loss) for loss in losses] == [*losses.values()]
    assert [loss_text(loss) for loss in (-0.0, -1e-9, -0.0004, -0.0006)] == ["0.000", "0.000", "0.000", "-0.001"]
    assert [range_text(steps) for steps in ([], [5], [9, 5, 7])] == ["", "5", "5–9"]
    assert listed(["a"]) + listed(["a", "b"]) + listed(["a", "b", "c"]) == "aa and ba, b and c"
