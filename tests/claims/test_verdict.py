"""The rules from findings to a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normexp.claims.claim import Citation, Claim, Decision, Expected, Finding, Kind, Word, judge

HOLDS, REFUTED, UNDECIDED, TOO_FEW = Decision
Tested = tuple[Decision, float]


class TestVerdict:
    def judged(self, own: list[Decision], other: list[Decision] | None = None, **rest: Any) -> tuple[Word, Any]:
        verdict = judged([(decision, None) for decision in own], [(decision, None) for decision in other or []], **rest)
        return verdict.word, verdict.when

    def test_by_settings(self) -> None:
        assert self.judged([HOLDS, HOLDS, HOLDS]) == (Word.HOLDS, ())
        assert self.judged([REFUTED, HOLDS, UNDECIDED]) == (Word.HOLDS_WHEN, ("setting 1",))
        assert self.judged([REFUTED, REFUTED]) == (Word.REFUTED, ())
        assert self.judged([REFUTED, UNDECIDED]) == (Word.INCONCLUSIVE, ())
        assert self.judged([HOLDS, TOO_FEW]) == (Word.NOT_ENOUGH, ())

    def test_elsewhere_counts_only_where_no_setting_holds(self) -> None:
        assert self.judged([REFUTED, UNDECIDED], [HOLDS, REFUTED]) == (Word.HOLDS_WHEN, ("other 0",))
        assert self.judged([REFUTED, REFUTED], [REFUTED]) == (Word.REFUTED, ())
        assert self.judged([REFUTED, REFUTED], [UNDECIDED]) == (Word.INCONCLUSIVE, ())
        assert self.judged([REFUTED, REFUTED], [HOLDS, TOO_FEW]) == (Word.NOT_ENOUGH, ())
        assert self.judged([HOLDS, HOLDS], [TOO_FEW]) == (Word.HOLDS, ())
        assert self.judged([HOLDS, REFUTED], [TOO_FEW]) == (Word.HOLDS_WHEN, ("setting 0",))
        assert self.judged([TOO_FEW, REFUTED], [HOLDS]) == (Word.NOT_ENOUGH, ())

    def test_calculations(self) -> None:
        claim = made(kind=Kind.COMPUTE, seeds=2)
        assert judge(claim, [found(HOLDS), found(HOLDS)]).word is Word.HOLDS
        assert judge(claim, [found(REFUTED), found(REFUTED)]).word is Word.REFUTED
        assert judge(claim, [found(HOLDS), found(REFUTED)]).word is Word.INCONCLUSIVE, "it depends on the seed"
        assert judge(claim, [found(HOLDS)]).word is Word.NOT_ENOUGH
        otherwise = replace(found(REFUTED), word=Word.SOURCE_DIFFERS)
        assert judge(claim, [otherwise, otherwise]).word is Word.SOURCE_DIFFERS
        assert judge(claim, [otherwise, found(REFUTED)]).word is Word.INCONCLUSIVE
        when = replace(found(HOLDS, "doubled"), word=Word.HOLDS_WHEN)
        assert judge(claim, [when, when]).text == "holds when doubled"
        assert judge(claim, [when, found(HOLDS)]).text == "holds when doubled"
        assert judge(claim, [when, found(REFUTED)]).word is Word.INCONCLUSIVE
        elsewhere = replace(when, setting="halved")
        assert judge(claim, [when, elsewhere]).word is Word.INCONCLUSIVE

    @pytest.mark.parametrize(
        ("agrees", "own", "word"),
        [(True, False, Word.SOURCE_AGREES), (False, False, Word.SOURCE_DIFFERS), (False, True, Word.CONTRADICTING)],
    )
    def test_citations(self, agrees: bool, own: bool, word: Word) -> None:
        citation = Citation(source="a paper", says="so", agrees=agrees, own=own)
        assert judge(made(kind=Kind.CITED, citation=citation), []).word is word

    def test_a_claim_that_cannot_be_checked(self) -> None:
        verdict = judge(made(kind=Kind.NONE, why="no source is named"), [])
        assert (verdict.word, verdict.run_ids) == (Word.NOT_CHECKABLE, ())

    def test_only_a_decided_verdict_on_full_runs_differs(self) -> None:
        claim = made(expected=expecting(Word.HOLDS), settings=("a",))
        assert judge(claim, [found(REFUTED, "a")]).differs
        assert judge(claim, [found(UNDECIDED, "a")]).differs
        assert not judge(claim, [found(REFUTED, "a")], quick=True).differs
        assert not judge(claim, [found(TOO_FEW, "a")]).differs
        assert not judge(claim, [found(HOLDS, "a")]).differs
        assert not judge(made(expected=None, settings=("a",)), [found(REFUTED, "a")]).differs
        either = made(expected=expecting(Word.REFUTED, Word.INCONCLUSIVE), settings=("a",))
        assert not judge(either, [found(UNDECIDED, "a")]).differs
        computed = made(kind=Kind.COMPUTE, seeds=1, expected=expecting(Word.HOLDS))
        assert judge(computed, [found(REFUTED)], quick=True).differs, "a calculation is never quick"


class TestCorrection:
    """Holm's method: the smallest of m p-values times m, the next times m - 1, and so on, must be at most 0.05."""

    def test_a_claim_that_holds_by_chance_in_one_of_nine_cells_is_inconclusive(self) -> None:
        verdict = judged([(HOLDS, 0.006), *[(REFUTED, 1.0)] * 2], [(REFUTED, 1.0)] * 6)
        assert (verdict.word, verdict.when) == (Word.INCONCLUSIVE, ())  # 9 * 0.006 = 0.054
        assert verdict.correction == "holds uncorrected setting 0, not after Holm's correction over 9 cells"

    def test_a_clear_cell_stands(self) -> None:
        verdict = judged([(HOLDS, 0.005), *[(REFUTED, 1.0)] * 2], [(REFUTED, 1.0)] * 6)
        assert (verdict.word, verdict.when) == (Word.HOLDS_WHEN, ("setting 0",))  # 9 * 0.005 = 0.045
        assert verdict.correction == "holds uncorrected setting 0, and after Holm's correction over 9 cells too"

    def test_only_the_clear_ones_of_several_stand(self) -> None:
        verdict = judged([(HOLDS, 0.03), (HOLDS, 0.001), (UNDECIDED, 0.2)])  # 3 * 0.001, 2 * 0.03, 0.2
        assert (verdict.word, verdict.when) == (Word.HOLDS_WHEN, ("setting 1",))
        assert verdict.uncorrected == ("setting 0", "setting 1")
        assert verdict.correction.endswith("over 3 cells only setting 1")

    def test_elsewhere_may_stand_where_a_setting_does_not(self) -> None:
        verdict = judged([(HOLDS, 0.04), (REFUTED, 1.0)], [(HOLDS, 0.001)])
        assert (verdict.word, verdict.when) == (Word.HOLDS_WHEN, ("other 0",))

    def test_a_claim_of_all_settings_and_counts_are_not_corrected(self) -> None:
        everywhere = judged([(HOLDS, 0.04)] * 3, [(REFUTED, 1.0)] * 6)
        assert (everywhere.word, everywhere.correction) == (Word.HOLDS, "")
        counted = judged([(HOLDS, None), (REFUTED, None), (REFUTED, None)])
        assert (counted.word, counted.correction) == (Word.HOLDS_WHEN, "")

    @given(st.lists(st.tuples(st.sampled_from([HOLDS, REFUTED, UNDECIDED]), st.floats(0, 0.05)), min_size=1))
    def test_a_correction_never_adds_a_setting(self, own: list[Tested]) -> None:
        verdict = judged(own, [])
        if verdict.uncorrected:
            assert set(verdict.when) <= set(verdict.uncorrected)
        assert (verdict.word is Word.HOLDS) is all(decision is HOLDS for decision, _ in own)
        assert verdict.word is not Word.REFUTED or all(decision is REFUTED for decision, _ in own)


def test_a_verdict_that_depends_on_the_threshold_says_so() -> None:
    verdict = judge(made(settings=("a",)), [found(HOLDS, "a")])
    assert replace(verdict, by_threshold={"2 %": "holds", "5 %": "holds"}).threshold == ""
    changed = replace(verdict, by_threshold={"2 %": "holds", "5 %": "refuted"})
    assert changed.threshold == "with a threshold of 5 % of the learnable gap: refuted"


def judged(own: list[Any], other: list[Any] | None = None, **rest: Any) -> Any:
    names = [f"setting {number}" for number in range(len(own))]
    others = [f"other {number}" for number in range(len(other or []))]
    findings = [
        replace(found(decision, name), p_value=p_value)
        for (decision, p_value), name in zip([*own, *(other or [])], [*names, *others], strict=True)
    ]
    return judge(made(settings=tuple(names), **rest), findings)


def expecting(*words: Word) -> Expected:
    return Expected(words, str(words[0]))


def found(decision: Decision, setting: str = "") -> Finding:
    return Finding(decision=decision, measured="m", sentence="s", setting=setting, seeds=3)


def made(**rest: Any) -> Claim:
    given: dict[str, Any] = {"kind": Kind.SWEEP, **rest}
    return Claim(id="a.1", section="1", text="a text", stated="1", place="a.yaml:1", **given)
