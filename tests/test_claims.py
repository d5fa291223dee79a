"""Checks of sweep claims: each against a frame that must bear it out, one that must not, and one that is too thin."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from normexp.claims.checks import CHECKS
from normexp.claims.claim import Citation, Claim, Finding, Kind, Word
from normexp.claims.findings import Difference, Mismatch, Thin, difference
from normexp.claims.measures import MEASURES
from normexp.claims.verdict import judge
from normexp.record import CurveRow, SignalRow, Traces
from normexp.run import RunConfig
from normexp.views import tables

SEEDS = (0, 1, 2)
NUMBERS = ("max_logit_at_init", "max_logit_after")
Cell = tuple[Mapping[str, Any], list[Any]]


def frame(cells: Iterable[Cell]) -> pd.DataFrame:
    """One row a run: keys of the cell, and by seed a loss, `nan@step`, an outcome with a loss, or pending (None)."""
    rows = []
    for values, ends in cells:
        keys = {key: value for key, value in values.items() if key not in NUMBERS}
        for seed, end in enumerate(ends):
            config = RunConfig(**keys, seed=seed)
            row: dict[str, Any] = {"setting": "", **config.to_dict(), "run_id": config.run_id, **told(end)}
            rows.append(row | {name: values.get(name) for name in NUMBERS})
    made = tables.frame(rows, ["setting", *tables.RUN_COLUMNS])
    for name in NUMBERS:
        made[name] = pd.Series([row[name] for row in rows], dtype="float64")
    return made


def told(end: Any) -> dict[str, Any]:
    if end is None:
        return {"status": "pending"}
    done = {"status": "done", "init_val_loss": 4.3, "learned_fraction": 0.5}
    if isinstance(end, str) and end.startswith("nan@"):
        return {**done, "outcome": "nonfinite", "step": int(end[4:]), "final_val_loss": math.inf}
    if isinstance(end, str):
        return {**done, "outcome": end, "final_val_loss": {"plateau": 4.05, "unsettled": 90.0, "diverged": 1e6}[end]}
    return {**done, "outcome": "learned", "final_val_loss": end}


def norms(ln: list[Any], none: list[Any]) -> pd.DataFrame:
    return frame([({"norm": "ln"}, ln), ({"norm": "none"}, none)])


def rates(*ends: list[Any], position: str = "pre") -> pd.DataFrame:
    return frame([({"position": position, "lr": lr}, end) for lr, end in zip((1e-4, 1e-3, 1e-2), ends, strict=True)])


def both(pre: tuple[list[Any], ...], post: tuple[list[Any], ...]) -> pd.DataFrame:
    return pd.concat([rates(*pre), rates(*post, position="post")], ignore_index=True)


def logits(before: float, after: float, count: int = 3) -> pd.DataFrame:
    return frame([({"max_logit_at_init": before, "max_logit_after": after}, [2.0] * count)])


LN, NONE = {"norm": ("ln",)}, {"norm": ("none",)}
PRE, POST = {"position": ("pre",)}, {"position": ("post",)}
LOW, MID, HIGH = [2.5, 2.51, 2.49], [2.0, 2.01, 1.99], [2.2, 2.21, 2.19]
DEAD, STUCK = ["nan@20", "nan@30", "nan@40"], ["plateau"] * 3
GOOD = [2.0, 2.01, 1.99]

CASES: dict[str, tuple[dict[str, Any], list[pd.DataFrame], list[pd.DataFrame], list[pd.DataFrame]]] = {
    "ends": (
        {"outcomes": ("plateau", "nonfinite"), "of_runs": NONE},
        [norms(GOOD, DEAD), norms(GOOD, ["plateau", "nan@3", "plateau"])],
        [norms(STUCK, GOOD), norms(GOOD, [*DEAD[:2], 2.0])],
        [norms(GOOD, DEAD[:2]), norms(GOOD, [*DEAD[:2], None])],
    ),
    "dies": (
        {"step": 30, "factor": 2.0, "of_runs": NONE},
        [norms(GOOD, DEAD), norms(GOOD, ["nan@15", "nan@60", "nan@60"])],
        [norms(GOOD, ["nan@3", "nan@4", "nan@5"]), norms(GOOD, [*DEAD[:2], 2.0]), norms(DEAD, STUCK)],
        [norms(GOOD, DEAD[:2])],
    ),
    "dies_by": (
        {"step": 40, "of_runs": NONE},
        [norms(GOOD, DEAD)],
        [norms(GOOD, [*DEAD[:2], "nan@41"]), norms(GOOD, [*DEAD[:2], 2.0])],
        [norms(GOOD, DEAD[:2])],
    ),
    "dies_later": (
        {"early": LN, "late": NONE},
        [norms(DEAD, ["nan@21", "nan@31", "nan@41"])],
        [norms(DEAD, ["nan@21", "nan@30", "nan@41"]), norms(DEAD, [*DEAD[:2], 2.0]), norms(GOOD, DEAD)],
        [norms(DEAD, DEAD[:2])],
    ),
    "lower": (
        {"better": LN, "worse": NONE, "by": 0.1},
        [norms(GOOD, [2.3, 2.31, 2.29]), norms(GOOD, DEAD), norms(GOOD, ["unsettled"] * 3)],
        [
            norms([2.3, 2.31, 2.29], GOOD),
            norms(GOOD, [2.05, 2.06, 2.04]),
            norms(GOOD, [1.9, 4.0, 1.95]),
            norms(DEAD, DEAD),
            norms([*DEAD[:2], 2.0], DEAD),
        ],
        [norms(GOOD, [2.3, 2.31]), norms([None, *GOOD[:2]], [2.3, 2.31, 2.29])],
    ),
    "close": (
        {"one": LN, "other": NONE, "within": 0.03},
        [norms(GOOD, [2.02, 2.03, 2.01])],
        [norms(GOOD, [2.05, 2.06, 2.04]), norms(STUCK, STUCK), norms(DEAD, DEAD), norms(GOOD, DEAD)],
        [norms(GOOD, [2.0, 2.01])],
    ),
    "near": (
        {"value": 2.0, "within": 0.03, "of_runs": LN},
        [norms(GOOD, DEAD)],
        [norms([2.1, 2.1, 2.0], GOOD), norms(DEAD, GOOD)],
        [norms(GOOD[:2], DEAD)],
    ),
    "above": (
        {"value": 9.0, "measure": "max_logit_after"},
        [logits(2, 9.1)],
        [logits(9.1, 8.9)],
        [logits(2, 9.1, count=2), logits(2, math.nan)],
    ),
    "below": (
        {"value": 9.0, "measure": "max_logit_after"},
        [logits(9.1, 8.9)],
        [logits(2, 9.1)],
        [logits(2, 8.9, count=2), logits(2, math.nan)],
    ),
    "changes": (
        {"before": "max_logit_at_init", "after": "max_logit_after", "towards": "rising", "times": 2.0},
        [logits(2, 4.1), logits(0, 1e-9), logits(-0.1, 0.1)],
        [logits(2, 3.9), logits(4.1, 2), logits(0, 0), logits(0, -1), logits(-0.1, -0.3), logits(-0.1, -0.06)],
        [logits(2, 5, count=2), logits(math.nan, 5)],
    ),
    "trend": (
        {"axis": "lr", "towards": "falling"},
        [rates([2.5, 2.51, 2.49], HIGH, MID)],
        [rates(MID, HIGH, LOW), rates(LOW, MID, HIGH), rates([2.0, 2.5, 1.6], [1.99, 2.4, 1.5], [1.98, 1.7, 1.9])],
        [rates(LOW, HIGH, MID[:2])],
    ),
    "best_at": (
        {"axis": "lr", "values": (1e-3,)},
        [rates(LOW, MID, DEAD), rates(LOW, MID, HIGH)],
        [rates(MID, LOW, HIGH), rates(STUCK, [*STUCK[:2], 4.0], STUCK), rates(DEAD, DEAD, DEAD)],
        [rates(LOW, MID, HIGH[:1])],
    ),
    "best_higher": (
        {"axis": "lr", "higher": PRE, "lower": POST},
        [both((LOW, HIGH, MID), (LOW, MID, DEAD))],
        [both((LOW, MID, HIGH), (LOW, MID, DEAD)), both((LOW, HIGH, MID), (STUCK, DEAD, DEAD))],
        [both((LOW, HIGH, MID), (LOW, MID, []))[lambda rows: rows["lr"] > 0].iloc[:-1]],
    ),
    "learns_at": (
        {"axis": "lr", "values": (1e-4, 1e-3)},
        [rates(LOW, MID, DEAD), rates(LOW, MID, [2.0, 2.0, "plateau"])],
        [rates(LOW, MID, HIGH), rates(LOW, STUCK, DEAD)],
        [rates(LOW, MID, DEAD[:2])],
    ),
    "sensitivity": (
        {"axis": "lr", "better": PRE, "worse": POST},
        [both((HIGH, MID, HIGH), (LOW, MID, DEAD))],
        [both((LOW, MID, DEAD), (HIGH, MID, HIGH)), both((STUCK, STUCK, STUCK), (LOW, MID, DEAD))],
        [both((HIGH, MID, HIGH), (LOW, MID, DEAD[:2]))],
    ),
    "equally_sensitive": (
        {"axis": "lr", "one": PRE, "other": POST, "within": 0.1},
        [both((HIGH, MID, HIGH), (HIGH, MID, HIGH)), both((LOW, MID, HIGH), (HIGH, MID, LOW))],
        [both((HIGH, MID, HIGH), (LOW, MID, DEAD)), both((STUCK, STUCK, STUCK), (STUCK, STUCK, STUCK))],
        [both((HIGH, MID, HIGH), (HIGH, MID, HIGH[:2]))],
    ),
}


def check(name: str, given: pd.DataFrame) -> Finding:
    return CHECKS[name].function(given, 3, **CASES[name][0])


def test_every_check_has_its_cases() -> None:
    assert set(CASES) == set(CHECKS)
    for name, row in CHECKS.items():
        given = set(CASES[name][0])
        assert set(row.takes) - row.optional <= given <= set(row.takes)
        assert row.help.endswith((".", ":"))


@pytest.mark.parametrize("name", CHECKS)
def test_a_frame_that_must_hold_does(name: str) -> None:
    for given in CASES[name][1]:
        finding = check(name, given)
        assert finding.holds is True, finding.sentence
        assert finding.seeds == 3
        assert set(finding.run_ids) <= set(given["run_id"])
        assert len(finding.run_ids) >= 3
        assert finding.measured


@pytest.mark.parametrize("name", CHECKS)
def test_a_frame_that_must_not_hold_does_not(name: str) -> None:
    for number, given in enumerate(CASES[name][2]):
        assert check(name, given).holds is False, number


@pytest.mark.parametrize("name", CHECKS)
def test_a_thin_frame_is_told_from_one_that_does_not_hold(name: str) -> None:
    for given in CASES[name][3]:
        with pytest.raises(Thin, match="needed"):
            check(name, given)


def test_what_was_measured_can_be_recomputed_by_hand() -> None:
    assert check("close", norms(STUCK, STUCK)).measured.endswith(
        "difference 0.000 (0.000 to 0.000), but not every run learned"
    )
    finding = check("lower", norms([2.0, 2.1, 2.2], [2.3, 2.4, 2.7]))
    # differences 0.3, 0.3, 0.5: mean 0.3667, std 0.11547, t(0.975, 2) = 4.3027, half 0.2868
    assert finding.measured == "2.100 ± 0.100 (3) against 2.467 ± 0.208 (3), difference 0.367 (0.080 to 0.654)"
    sensitive = CHECKS["sensitivity"].function(
        both((HIGH, MID, HIGH), (LOW, MID, DEAD)), 3, axis="lr", better=PRE, worse=POST
    )
    # seed 0: (2.2 + 2.0 + 2.2) / 3 - 2.0 = 0.133; (2.5 + 2.0 + 4.3) / 3 - 2.0 = 0.933
    assert sensitive.measured.startswith("0.133 ± 0.000 (3) against 0.933")


def test_differences_of_infinities() -> None:
    assert difference({0: math.inf, 1: 1.0}, {0: math.inf, 1: 2.0}, 2).values == (0.0, 1.0)
    assert not Difference((0.0, math.inf)).above_zero
    assert Difference((math.inf, math.inf)).above_zero
    assert Difference((0.1,)).above_zero, "one seed has no interval"


def test_infinities_of_both_signs_have_no_mean() -> None:
    gap = Difference((math.inf, -math.inf, 0.1))
    assert math.isnan(gap.mean)
    assert not gap.above_zero
    assert gap.text == "undefined"
    finding = check("lower", norms([2.0, "nan@20", 2.0], ["nan@20", 2.0, 2.3]))
    assert not finding.holds
    assert finding.measured.endswith("difference undefined")


def test_a_measure_may_fall_to_or_from_zero() -> None:
    for before, after, holds in ((4.1, 2, True), (3.9, 2, False), (1, 0, True), (0, 0, False), (0, 1, False)):
        with_ = CASES["changes"][0] | {"towards": "falling"}
        assert CHECKS["changes"].function(logits(before, after), 3, **with_).holds is holds


def test_a_change_is_one_of_the_same_run() -> None:
    apart = logits(2, 5, count=6)
    apart.loc[:2, "max_logit_at_init"] = math.nan
    apart.loc[3:, "max_logit_after"] = math.nan
    with pytest.raises(Thin, match="known of 0 of 3 needed runs"):
        CHECKS["changes"].function(apart, 3, **CASES["changes"][0])


def test_along_a_key_each_side_is_at_its_best() -> None:
    given = both((LOW, MID, HIGH), (HIGH, LOW, DEAD))
    finding = CHECKS["lower"].function(given, 3, better=PRE, worse=POST, over="lr")
    assert finding.holds
    assert "lr 0.001" in finding.sentence
    assert "lr 0.0001" in finding.sentence


def test_a_selection_of_several_cells_or_of_none_is_a_fault_of_the_file() -> None:
    given = both((LOW, MID, HIGH), (HIGH, LOW, DEAD))
    with pytest.raises(Mismatch, match="several cells"):
        CHECKS["lower"].function(given, 3, better=PRE, worse=POST)
    with pytest.raises(Mismatch, match="no point has norm rms"):
        CHECKS["ends"].function(given, 3, outcomes=("learned",), of_runs={"norm": ("rms",)})
    with pytest.raises(Mismatch, match="several cells at one lr"):
        CHECKS["learns_at"].function(given, 3, axis="lr", values=(1e-3,))


class TestVerdict:
    def judged(self, own: list[bool | None], other: list[bool | None] | None = None, **rest: Any) -> tuple[Word, Any]:
        names = [f"setting {number}" for number in range(len(own))]
        claim = made(settings=tuple(names), **rest)
        findings = [found(holds, name) for holds, name in zip(own, names, strict=True)]
        findings += [found(holds, f"other {number}") for number, holds in enumerate(other or [])]
        verdict = judge(claim, findings)
        return verdict.word, verdict.when

    def test_by_settings(self) -> None:
        assert self.judged([True, True, True]) == (Word.REPRODUCED, ())
        assert self.judged([False, True, False]) == (Word.ONLY_WHEN, ("setting 1",))
        assert self.judged([False, False]) == (Word.NOT_REPRODUCED, ())
        assert self.judged([True, None]) == (Word.NOT_ENOUGH, ())

    def test_elsewhere_counts_only_where_no_setting_holds(self) -> None:
        assert self.judged([False, False], [True, False]) == (Word.ONLY_WHEN, ("other 0",))
        assert self.judged([False, False], [False]) == (Word.NOT_REPRODUCED, ())
        assert self.judged([False, False], [True, None]) == (Word.NOT_ENOUGH, ())
        assert self.judged([True, True], [None]) == (Word.REPRODUCED, ())
        assert self.judged([True, False], [None]) == (Word.ONLY_WHEN, ("setting 0",))
        assert self.judged([None, False], [True]) == (Word.NOT_ENOUGH, ())

    def test_calculations(self) -> None:
        claim = made(kind=Kind.COMPUTE, seeds=2)
        assert judge(claim, [found(True), found(True)]).word is Word.REPRODUCED
        assert judge(claim, [found(True), found(False)]).word is Word.NOT_REPRODUCED
        assert judge(claim, [found(True)]).word is Word.NOT_ENOUGH
        misquoted = Finding(holds=False, measured="1", sentence="1", word=Word.MISQUOTED)
        assert judge(claim, [misquoted, misquoted]).word is Word.MISQUOTED
        assert judge(claim, [misquoted, found(False)]).word is Word.NOT_REPRODUCED
        when = Finding(holds=True, measured="1", sentence="1", setting="doubled", word=Word.ONLY_WHEN)
        assert judge(claim, [when, when]).text == "only when doubled"
        assert judge(claim, [when, found(True)]).text == "only when doubled"
        assert judge(claim, [when, found(False)]).word is Word.NOT_REPRODUCED
        elsewhere = replace(when, setting="halved")
        assert judge(claim, [when, elsewhere]).word is Word.NOT_REPRODUCED

    @pytest.mark.parametrize(
        ("agrees", "own", "word"),
        [(True, False, Word.REPRODUCED), (False, False, Word.MISQUOTED), (False, True, Word.CONTRADICTING)],
    )
    def test_citations(self, agrees: bool, own: bool, word: Word) -> None:
        citation = Citation(source="a paper", says="so", agrees=agrees, own=own)
        assert judge(made(kind=Kind.CITED, citation=citation), []).word is word

    def test_only_a_decided_verdict_on_full_runs_differs(self) -> None:
        claim = made(expected=Word.REPRODUCED, settings=("a",))
        assert judge(claim, [found(False, "a")]).differs
        assert not judge(claim, [found(False, "a")], quick=True).differs
        assert not judge(claim, [found(None, "a")]).differs
        assert not judge(claim, [found(True, "a")]).differs
        assert not judge(made(expected=None, settings=("a",)), [found(False, "a")]).differs
        computed = made(kind=Kind.COMPUTE, seeds=1, expected=Word.REPRODUCED)
        assert judge(computed, [found(False)], quick=True).differs, "a calculation is never quick"


def found(holds: bool | None, setting: str = "") -> Finding:
    return Finding(holds=holds, measured="m", sentence="s", setting=setting, seeds=3)


def made(**rest: Any) -> Claim:
    given: dict[str, Any] = {"kind": Kind.SWEEP, **rest}
    return Claim(id="a.1", section="1", text="a text", stated="1", place="a.yaml:1", **given)


class TestMeasures:
    LAYERS = tuple(
        SignalRow(step=step, layer=layer, part=part, quantity=quantity, value=value * (1 + step / 100))
        for step in (0, 100)
        for layer, part, quantity, value in (
            (0, "stream", "rms", 1.0),
            (1, "stream", "rms", 1.5),
            (1, "ffn", "rms", 0.3),
            (2, "stream", "rms", 3.0),
            (2, "ffn", "rms", 0.3 if step else 0.6),
            (1, "mixer", "max_logit", 5.0),
            (2, "mixer", "max_logit", 4.0),
            (1, "mixer", "attention_entropy", 0.5),
            (2, "mixer", "attention_entropy", 0.25),
        )
    )
    CURVE = tuple(
        CurveRow(
            step=step,
            lr=1e-3,
            train_loss=4.0 - step / 100 + (0.1 if step % 2 else -0.1),
            grad_norm=1.0,
            val_loss={0: 4.3, 50: 3.0, 75: 3.2, 100: 2.9}.get(step),
        )
        for step in range(101)
    )

    def test_values(self) -> None:
        config = RunConfig(depth=2, width=16, heads=2, steps=100)
        traces = Traces(curve=self.CURVE, layers=self.LAYERS)
        values = {name: measure.of(config, traces) for name, measure in MEASURES.items()}
        assert values["early_val_loss"] == 3.0
        assert values["worst_rise"] == pytest.approx(0.2)
        assert values["roughness"] == pytest.approx(0.2021, abs=1e-3), "steps of ±0.2 about -0.01"
        assert values["peak_stream_norm"] == pytest.approx(3.0 * 2 * 4)
        assert (values["stream_growth_at_init"], values["stream_growth_after"]) == (3.0, 3.0)
        assert values["stream_growth_change"] == 1.0
        assert (values["late_share_at_init"], values["late_share_after"]) == pytest.approx((1.0, 0.5))
        assert (values["max_logit_at_init"], values["max_logit_after"]) == (5.0, 10.0)
        assert (values["entropy_at_init"], values["entropy_after"]) == (0.25, 0.5)
        assert (values["leak"], values["mode_gap"]) == (0.0, 0.0)

    def test_what_was_not_measured_is_nan_and_a_dead_run_is_rough(self) -> None:
        config = RunConfig(depth=2, steps=200)
        traces = Traces(curve=self.CURVE)
        assert math.isnan(MEASURES["stream_growth_after"].of(config, traces))
        assert math.isnan(MEASURES["max_logit_after"].of(config, traces))
        assert MEASURES["roughness"].of(config, traces) == math.inf
