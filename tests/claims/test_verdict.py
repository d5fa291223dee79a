"""The rules from findings to a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from normexp.claims.claim import Citation, Claim, Finding, Kind, Word, judge


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

    def test_a_claim_that_cannot_be_checked(self) -> None:
        verdict = judge(made(kind=Kind.NONE, why="no source is named"), [])
        assert (verdict.word, verdict.run_ids) == (Word.NOT_CHECKABLE, ())

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
