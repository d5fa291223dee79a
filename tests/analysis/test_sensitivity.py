"""S is given for lines that learn, over the values that all of them share, and counts each run once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
import records as made
from charts import chart, figure_of, line, source_of
from drawn import cut_off, legend
from matplotlib.figure import Figure

from normexp.analysis.sensitivity import ScannedRun, sensitivities, sensitivity
from normexp.config.plan import Plan
from normexp.plots.drawing import draw
from normexp.records.record import RunRecord

RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
INITIAL = 4.3
"""Loss before training of the runs of `made.done`."""


def run(final: float, *, run_id: str = "", learned: bool = True) -> ScannedRun:
    return ScannedRun(run_id=run_id or str(final), final=final, initial=4.0, learned=learned)


def scan(*finals: float, rates: Sequence[float] = RATES, learned: bool = True) -> dict[float, dict[int, ScannedRun]]:
    return {rate: {0: run(final, learned=learned)} for rate, final in zip(rates, finals, strict=False)}


def of_lines(ends: Mapping[str, Sequence[str]]) -> tuple[Plan, dict[str, RunRecord]]:
    """A norm's line for each: how its runs at the rates end; fewer ends leave the highest rates out."""
    whole = made.plan({"norm": list(ends), "lr": RATES}, depth=2)
    points = [p for p in whole.points if RATES.index(p.config.lr) < len(ends[p.values["norm"]])]
    plan = Plan(
        name="made_up", title="", folder="made_up", axes=whole.axes, points=tuple(points), source="", pivot=None
    )
    found = {p.config.run_id: made.end(p.config, ends[p.values["norm"]][RATES.index(p.config.lr)]) for p in plan.points}
    return plan, {run_id: record for run_id, record in found.items() if record is not None}


def test_lines_are_compared_over_the_values_that_they_share() -> None:
    long, short = sensitivities([scan(2.0, 1.0, 1.6, 3.0, 9.0), scan(2.5, 1.5)])
    assert long.by_seed == {0: pytest.approx(0.5)}
    assert short.by_seed == {0: pytest.approx(0.5)}
    assert (long.count, short.count) == (2, 2)


def test_a_line_that_learns_nowhere_has_no_s_and_narrows_no_other() -> None:
    plateau, good = sensitivities([scan(3.99, 3.98, learned=False), scan(2.0, 1.0, 1.6)])
    assert (plateau.mean, plateau.reason) == (None, "no run learned")
    assert (good.mean, good.count) == (pytest.approx(1.6 / 3), 3)


def test_every_seed_must_learn_somewhere() -> None:
    both = {rate: {0: run(2.0 + rate), 1: run(3.99, run_id=str(rate), learned=False)} for rate in RATES}
    (found,) = sensitivities([both])
    assert (found.mean, found.reason) == (None, "no run learned with seed 1")


def test_a_line_that_learns_only_where_others_have_no_runs_has_no_s() -> None:
    late = scan(3.99, 3.98, learned=False) | {3e-3: {0: run(1.0)}}
    found, other = sensitivities([late, scan(2.0, 1.0)])
    assert (found.mean, found.reason) == (None, "no run learned at the values that all lines share")
    assert other.count == 2


def test_lines_without_two_common_values_have_no_s() -> None:
    one, other = sensitivities([scan(2.0, 1.0, rates=RATES[:2]), scan(2.0, 1.0, rates=RATES[1:3])])
    assert one.mean is other.mean is None
    assert one.reason == "the lines share fewer than two values"


def test_a_run_that_answers_several_values_counts_once() -> None:
    shared = {1: {0: run(2.0, run_id="a")}, 2: {0: run(2.0, run_id="a")}, 3: {0: run(1.0, run_id="b")}}
    (found,) = sensitivities([shared])
    assert found.mean == pytest.approx(sensitivity([2.0, 1.0], [4.0, 4.0]))
    (same,) = sensitivities([{value: {0: run(2.0, run_id="a")} for value in (1, 2)}])
    assert same.mean is None
    assert "one run" in same.reason


def test_missing_runs_and_single_values_have_no_s() -> None:
    missing, single, none = sensitivities([scan(2.0, 1.0) | {1e-3: {}}, scan(2.0), {}])
    assert "not all runs are done" in missing.reason
    assert single.reason == none.reason == "fewer than two values"


def test_a_figure_says_over_how_many_rates_s_is_and_why_a_line_has_none() -> None:
    ends = {"ln": ["2.0", "1.9", "2.2", "2.6", "plateau"], "rms": ["2.0", "1.9"], "none": ["plateau"] * 4 + ["nan@3"]}
    found = chart("sensitivity", source_of(*of_lines(ends)))
    expected = (2.0 + 1.9) / 2 - 1.9
    for name in ("norm ln", "norm rms"):
        s = line(found, name).sensitivity
        assert s is not None
        assert (s.mean, s.count) == (pytest.approx(expected), 2)
    definition, missing = found.notes
    assert "the 2 learning rates" in definition
    assert missing.endswith("norm none: no run learned")
    assert {"norm ln (S 0.05)", "norm none (S —)"} <= set(legend(draw(found)))
    data = found.data.drop_duplicates("line").set_index("line")
    assert tuple(data.loc["norm ln", ["sensitivity_values", "no_sensitivity"]]) == ("2", "")
    assert tuple(data.loc["norm none", ["sensitivity", "sensitivity_values", "no_sensitivity"]]) == (
        "",
        "",
        "no run learned",
    )
    assert float(data.loc["norm ln", "sensitivity"]) == pytest.approx(expected)


def test_a_line_on_which_every_run_died_says_why_it_has_no_s() -> None:
    plan = made.plan({"lr": RATES})
    figure = draw(figure_of("sensitivity", plan, {run_id: made.dead(c, 3) for run_id, c in plan.configs.items()}))
    assert "(S —)" in legend(figure)
    assert not any("(S )" in text for text in legend(figure))
    assert figure.legends[0].get_title().get_text().endswith("this line: no run learned")


def faceted(warmups: Sequence[int]) -> Figure:
    """Both norms in a panel a warm-up; nothing learns at a warm-up of 10."""
    axes = {"warmup": warmups, "norm": ["ln", "rms"], "lr": RATES}
    plan = made.plan(axes, depth=2, steps=1000)
    ends = {
        run_id: made.end(config, "plateau" if config.warmup == 10 else f"{1.5 + config.warmup / 100 + config.lr:.4f}")
        for run_id, config in plan.configs.items()
    }
    records = {run_id: record for run_id, record in ends.items() if record is not None}
    return draw(figure_of("sensitivity", plan, records, facets=("warmup",)))


def test_the_legend_says_which_panel_each_s_is_of() -> None:
    figure = faceted((0, 10, 20))
    s = f"{sum(RATES) / 5 - RATES[0]:.2f}"
    assert f"norm ln (S {s} [warmup 0], — [warmup 10], {s} [warmup 20])" in legend(figure)
    assert not cut_off(figure)


def test_a_range_of_s_says_of_how_many_panels_it_is() -> None:
    (text,) = [text for text in legend(faceted((0, 10, 20, 30, 40, 50))) if text.startswith("norm ln")]
    assert text == "norm ln (S 0.00 in 5 of 6 panels)"
