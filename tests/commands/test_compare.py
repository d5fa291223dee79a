"""normexp compare: differences between two sweeps or two runs, on made-up records."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import golden_texts
import pytest
import records
from commandline import invoke
from printed import printed
from scipy import stats
from stored import saved

from normexp.analysis import comparison
from normexp.analysis.comparison import Side, halves, side
from normexp.errors import UserError
from normexp.records.record import Losses
from normexp.terminal import compare

SEEDS = [0, 1, 2]


def side_of(name: str, ends: Sequence[str], axes: Mapping[str, Sequence[Any]], **base: Any) -> Side:
    """Return a sweep whose runs ended as listed in `ends`."""
    plan = records.plan(axes, name=name, **base)
    return side(name, name, plan, records.ended(plan, ends))


LN = side_of("ln", ["1.90", "1.92", "1.97", "2.20", "2.25", "nan@12"], {"lr": [1e-3, 1e-2], "seed": SEEDS}, norm="ln")
RMS = side_of(
    "rms", ["1.80", "1.85", "1.84", "2.10", "pending", "2.0"], {"lr": [1e-3, 1e-2], "seed": SEEDS}, norm="rms"
)


def test_differences_are_paired_over_seeds_with_a_t_interval() -> None:
    found = comparison.compare(LN, RMS)
    first, second = found.cells
    differences = [1.80 - 1.90, 1.85 - 1.92, 1.84 - 1.97]
    low, high = stats.t.interval(0.95, 2, loc=statistics.fmean(differences), scale=stats.sem(differences))
    assert (first.mean, first.low, first.high) == pytest.approx((-0.1, low, high))
    assert (first.pairs, first.compared, first.clear) == (3, 3, True)
    assert (second.pairs, second.compared, second.low) == (3, 1, None)
    assert second.mean == pytest.approx(-0.1)


def test_nonfinite_and_pending_runs_are_counted_on_both_sides() -> None:
    found = comparison.compare(LN, RMS)
    words = {(change.a, change.b): len(change.pairs) for change in found.changes}
    assert words == {("learned", "learned"): 4, ("learned", "pending"): 1, ("nonfinite", "learned"): 1}
    text = shown(found)
    assert "2.225 ± 0.035 (2/3); 1/3 nan @12" in text
    assert "2.050 ± 0.071 (2/3); 1/3 pending" in text
    row = next(line for line in text.splitlines() if line.startswith("0.01 "))
    assert row.split()[-4:] == ["-0.100", "1", "of", "3"]
    assert "1 of 5 differ; 1 more" in text
    assert "B is lower in 1 (significantly in 1) and higher in 0 (significantly in 0)" in text
    assert "lr 0.01, seed 2" in text


def test_two_plateaus_do_not_count_as_a_difference() -> None:
    ends_a, ends_b = (
        ["4.065", "4.065", "4.066", "4.06", "4.065", "4.06"],
        ["4.05", "4.05", "4.051", "3.0", "3.0", "3.01"],
    )
    axes = {"lr": [1e-3, 1e-2], "seed": SEEDS}
    found = comparison.compare(side_of("ln", ends_a, axes, norm="ln"), side_of("rms", ends_b, axes, norm="rms"))
    first, second = found.cells
    assert first.high is not None
    assert first.high < 0
    assert (first.nothing_learned, first.clear, second.nothing_learned, second.clear) == (True, False, False, True)
    assert [cell["nothing_learned"] for cell in comparison.as_data(found)["cells"]] == [True, False]
    text = shown(found)
    assert "In 2 cells with two or more pairs, B is lower in 1 (significantly in 1) and higher in 0" in text
    assert "; in 1, nothing was learned on either side." in text
    assert "rms - ln with lr 0.001: nothing was learned on either side, 3 paired seeds." in text


class TestPaperSentences:
    def test_a_difference_with_its_interval_and_seeds(self) -> None:
        first, second = compare.paper_sentences(comparison.compare(LN, RMS))
        assert first == "rms - ln with lr 0.001: -0.100 nats, 95 % CI -0.175 to -0.025, 3 paired seeds."
        assert second == "rms - ln with lr 0.01: -0.100 nats, 1 paired seed of 3, so no confidence interval."

    def test_two_values_of_a_key_are_named_without_the_key(self) -> None:
        axes = {"norm": ["ln", "rms"], "position": ["pre"], "seed": SEEDS}
        ends = ["1.90", "1.92", "1.97", "1.80", "1.85", "1.84"]
        (sentence,) = compare.paper_sentences(comparison.compare(*halves(side_of("both", ends, axes), "norm=ln,rms")))
        assert sentence.startswith("rms - ln with position pre: -0.100 nats, 95 % CI ")

    def test_cells_without_a_finite_pair_and_cells_of_the_same_runs(self) -> None:
        dead = side_of("rms", ["nan@5"] * 6, {"lr": [1e-3, 1e-2], "seed": SEEDS}, norm="rms")
        assert (
            "in no seed both runs learned or ended on a plateau"
            in compare.paper_sentences(comparison.compare(LN, dead))[0]
        )
        assert compare.paper_sentences(comparison.compare(LN, LN)) == []

    def test_their_number_is_bounded(self) -> None:
        axes = {"lr": [1e-3 * n for n in range(1, 9)], "seed": [0]}
        sides = (side_of(norm, ["2.0"] * 8, axes, norm=norm) for norm in ("ln", "rms"))
        *_, last = lines = compare.paper_sentences(comparison.compare(*sides))
        assert (len(lines), last) == (compare.SHOWN_POINTS + 1, "and 3 more in the table")


def test_keys_that_differ_are_those_whose_values_do() -> None:
    found = comparison.compare(LN, RMS)
    assert {item.name: (item.a, item.b) for item in found.keys} == {
        "norm": (("ln",), ("rms",)),
        "final_norm": (("ln",), ("rms",)),
    }
    assert found.pairing.replaced == ()  # no axis of either: the whole sweeps differ in it
    assert found.environment == ()
    newer = {
        run_id: replace(record, environment=record.environment | {"torch": "2.14.0"})
        for run_id, record in RMS.records.items()
    }
    differing = comparison.compare(LN, replace(RMS, records=newer)).environment
    assert [(item.name, item.a, item.b) for item in differing] == [("torch", ("2.13.0",), ("2.14.0",))]


def test_an_axis_without_a_common_value_is_replaced_and_a_common_one_matched() -> None:
    a = side_of("a", ["2.0"] * 4, {"norm": ["ln", "rms"], "lr": [1e-3, 1e-2]})
    b = side_of("b", ["1.9"] * 2, {"norm": ["none"], "lr": [1e-3, 3e-3]})
    found = comparison.compare(a, b)
    assert (found.pairing.replaced, found.pairing.matched) == (("norm",), ("label", "lr", "seed"))
    assert [(cell.before["norm"], cell.after["norm"], cell.where["lr"]) for cell in found.cells] == [
        ("ln", "none", 1e-3),
        ("rms", "none", 1e-3),
    ]
    assert (len(found.pairing.only_a), len(found.pairing.only_b)) == (2, 1)
    text = shown(found)
    assert "norm rms → none" in text
    assert [fact for fact in ("2 pairs", "2 configs of A", "1 config of B") if fact not in text] == []


def test_seeds_are_never_replaced() -> None:
    a = side_of("a", ["2.0"] * 2, {"seed": [0, 1]})
    b = side_of("b", ["2.0"] * 2, {"seed": [2, 3]}, norm="rms")
    found = comparison.compare(a, b)
    assert found.cells == ()
    assert "Nothing to pair" in shown(found)
    assert "on seed; 2 configs of A" in shown(found)


def test_losses_of_two_tasks_are_not_subtracted() -> None:
    other = {
        run_id: replace(record, result=replace(record.result, losses=Losses(floor=0.1, guess=4.0, bigram=2.0)))
        for run_id, record in RMS.records.items()
        if record.result is not None
    }
    moved = side("rms", "rms", records.plan({"lr": [1e-3, 1e-2], "seed": SEEDS}, name="rms", norm="rms"), other)
    found = comparison.compare(LN, moved)
    assert {cell.mean for cell in found.cells} == {None}
    assert "different tasks" in shown(found)


class TestAlong:
    WHOLE = side_of("w", ["2.0", "4.065", "1.9", "nan@3"], {"position": ["pre", "post"], "lr": [1e-3, 1e-2]})

    def test_one_key_within_a_sweep(self) -> None:
        found = comparison.compare(*halves(self.WHOLE, "position=pre,post"))
        assert [(cell.where["lr"], cell.mean) for cell in found.cells] == [(1e-3, pytest.approx(-0.1)), (1e-2, None)]
        assert {(change.a, change.b) for change in found.changes} == {("learned", "learned"), ("plateau", "nonfinite")}

    def test_points_of_one_run_are_the_same(self) -> None:
        whole = side_of("w", ["2.0"], {"position": ["pre", "post"]}, norm="none")
        found = comparison.compare(*halves(whole, "position=pre,post"))
        assert found.cells[0].same_runs
        assert "the same runs" in shown(found)

    def test_one_run_with_other_numbers_is_not_the_same(self) -> None:
        here, there = side_of("w", ["2.0", "2.1"], {"seed": [0, 1]}), side_of("w", ["2.0", "2.4"], {"seed": [0, 1]})
        (cell,) = comparison.compare(here, there).cells
        assert not cell.same_runs
        assert cell.mean == pytest.approx(0.15)

    @pytest.mark.parametrize(
        ("along", "fact"),
        [
            ("position", "--along position"),
            ("position=pre", "--along position"),
            ("positon=pre,post", "did you mean position?"),
            ("x=pre,post", "--along x"),
            ("position=pre,pots", "did you mean post"),
            ("position=pre,pre", "two"),
            ("position=pre,lns", "position lns.* pre, post"),
        ],
    )
    def test_a_key_without_two_values_is_refused(self, along: str, fact: str) -> None:
        with pytest.raises(UserError, match=fact):
            halves(self.WHOLE, along)


def shown(found: comparison.Comparison) -> str:
    return printed(compare.comparison(found))


class TestRuns:
    ONE, OTHER, DEAD = (
        records.done(records.RunConfig(lr=1e-3, steps=100), 2.0),
        records.done(records.RunConfig(lr=1e-2, steps=100), 1.9),
        records.dead(records.RunConfig(lr=1.0, steps=100), 12),
    )

    def test_the_first_difference_of_curves(self) -> None:
        found = compare.compare(self.ONE, self.OTHER)
        assert [item.name for item in found.keys] == ["lr"]
        assert found.difference == pytest.approx(-0.1)
        assert found.curves is not None
        assert (found.curves.step, found.curves.column) == (1, "train_loss")
        apart = [
            one.step
            for one, other in zip(self.ONE.traces.curve, self.OTHER.traces.curve, strict=True)  # type: ignore[union-attr]
            if one.train_loss and other.train_loss and not math.isclose(one.train_loss, other.train_loss, rel_tol=0.01)
        ]
        assert found.curves.apart == apart[0]

    def test_unmeasured_values_are_not_compared(self) -> None:
        assert self.ONE.traces is not None
        packed = replace(
            self.ONE, traces=replace(self.ONE.traces, curve=[replace(r, grad_norm=None) for r in self.ONE.traces.curve])
        )
        for pair in ((self.ONE, packed), (packed, self.ONE)):
            found = compare.compare(*pair)
            assert found.curves is not None
            assert (found.curves.step, found.curves.steps) == (None, 100)
            assert golden_texts.BIT_IDENTICAL in compare.run_sentences(found)[-1]

    def test_nonfinite_runs_have_no_difference(self) -> None:
        found = compare.compare(self.ONE, self.DEAD)
        assert found.difference is None
        assert compare.as_data(found)["b"]["outcome"] == "nonfinite"


class TestCommand:
    @pytest.fixture
    def out(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        for name, norm, ends in (("ln", "ln", ["2.0", "nan@5"]), ("rms", "rms", ["inf@3", "1.9"])):
            saved(tmp_path / "results", records.plan({"lr": [1e-3, 1e-2]}, name=name, norm=norm), ends)
        monkeypatch.chdir(tmp_path)
        return tmp_path

    def read(self, *arguments: str) -> Any:
        done = invoke("compare", *arguments, "--json")
        assert done.code == 0
        return json.loads(done.out, parse_constant=lambda constant: pytest.fail(constant))

    def test_two_sweeps(self, out: Path) -> None:
        done = invoke("compare", "ln", "results/rms")
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith("ln (A) against rms (B)")
        data = self.read("ln", "results/rms")
        assert (data["schema"], data["kind"]) == (1, "sweeps")
        assert data["cells"][0]["b"] | {"results": None} == {
            "results": None,
            "survivors": 0,
            "mean_val_loss": None,
            "median_val_loss": None,
            "median_val_loss_kind": "inf",
        }

    def test_outdated_runs_draw_a_warning(self, out: Path) -> None:
        for path in (out / "results" / "rms" / "runs").glob("*/run.json"):
            path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"numerics": 0}), "utf-8")
        done = invoke("compare", "ln", "rms", "--json")
        assert (done.code, done.err.count("warning: ")) == (0, 1)
        assert f"{Path('results/rms')}: 2 runs outdated" in done.err

    def test_a_missing_plugin_is_reported_once(self, out: Path) -> None:
        folder = out / "results" / "rms"
        for path in (folder / "manifest.json", *folder.glob("runs/*/run.json")):
            path.write_text(path.read_text("utf-8").replace('"norm": "rms"', '"norm": "l9"'), "utf-8")
        done = invoke("compare", "rms", "--along", "lr=1e-3,1e-2")
        assert (done.code, done.err.count("l9"), len(done.err.splitlines())) == (2, 1, 1)

    def test_two_runs(self, out: Path) -> None:
        done = invoke("compare", "d20-ln-pre-attention-lr0.001", "d20-rms-pre-attention-lr0.01")
        assert (done.code, "norm" in done.out, "B - A: -0.100" in done.out) == (0, True, True)
        data = self.read("d20-ln-pre-attention-lr0.001", "d20-ln-pre-attention-lr0.01")
        assert (data["kind"], data["b"]["death"]["step"]) == ("runs", 5)
        assert data["difference"] == {"final_val_loss": None}

    @pytest.mark.parametrize(
        ("arguments", "fact"),
        [
            (["ln"], "--along"),
            (["ln", "rms", "--along", "lr=1e-3,1e-2"], "--along"),
            (["ln", "d20-rms-pre-attention-lr0.01"], "two runs, two sweeps"),
            (["nothing", "ln"], "nothing: no sweep or run"),
        ],
    )
    def test_incomparable_arguments_are_refused(self, arguments: list[str], fact: str, out: Path) -> None:
        done = invoke("compare", *arguments)
        assert (done.code, done.out, fact in done.err) == (2, "", True)
