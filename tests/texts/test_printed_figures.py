"""Printed figures: compared digit by digit, and given in a user's claims file."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from normexp.claims import evaluate
from normexp.claims.claim import Word
from normexp.claims.parser import parse
from normexp.errors import UserError
from normexp.texts import figures

pytestmark = pytest.mark.usefixtures("alone")


class TestFigures:
    def test_digits_count(self) -> None:
        assert figures.same(7.9149, "7.9")
        assert figures.same(7.9149, "7.91")
        assert not figures.same(7.9149, "7.92")
        assert not figures.same(7.9149, "8.0")
        assert figures.same(-0.00001, "0.0000")
        assert figures.same(12345.0, "1e4")
        assert not figures.same(1.2344e4, "1.24e4")
        for value in (math.inf, -math.inf, math.nan, 1e300):
            assert not figures.same(value, "1.0")

    def test_values_are_compared_with_printed_figures(self) -> None:
        assert figures.compare_printed([7.9149, 1e9], ["7.9", "1"], "norms").measured == "7.9, 1e+09"
        wrong = figures.compare_printed([7.9149], ["8.0"], "norms")
        assert not wrong.holds
        assert "7.9" in wrong.sentence
        assert "8.0" in wrong.sentence
        assert not figures.compare_printed([1.0], ["1.0", "2.0"], "norms").holds

    def test_conditions(self) -> None:
        yes, no = (True, "1"), (False, "0")
        assert figures.by_condition({"a": yes, "b": yes}, {"c": no}, "s").word is None
        partly = figures.by_condition({"a": no, "b": yes, "d": yes}, {"c": yes}, "s")
        assert (partly.word, partly.setting, partly.measured) == (Word.HOLDS_WHEN, "b and d", "a: 0; b: 1; d: 1; c: 1")
        assert figures.by_condition({"a": no}, {"c": yes}, "s").setting == "c"
        none = figures.by_condition({"a": no}, {"c": no}, "s")
        assert (none.holds, none.word) == (False, None)


FIGURES = """\
claims:
  - id: mine.norms
    section: "1"
    text: Norms are these
    stated: these
    kind: compute
    check: norms.parameters
    with: {figures: [64, 128, 64]}
"""


def test_figures_of_a_user_s_claims_file(tmp_path: Path) -> None:
    for text, word in ((FIGURES, Word.HOLDS), (FIGURES.replace("128", "127"), Word.REFUTED)):
        file = parse(text, tmp_path / "mine.yaml")
        assert file.claims[0].parameters["figures"][0] == "64"
        (verdict,) = evaluate.judged(file, file.claims, tmp_path)
        assert verdict.word is word
        assert verdict.findings[0].measured == "64, 128, 64"


@pytest.mark.parametrize(
    ("old", "new", "place", "hint"),
    [
        ("    with: {figures: [64, 128, 64]}\n", "", "7: claims[1].with: ", "figures"),
        ("[64, 128, 64]", "[64, 128]", "8: claims[1].with.figures: ", "3 figures"),
        ("[64, 128, 64]", "[]", "8: claims[1].with.figures: ", "empty"),
        ("[64, 128, 64]", "[64, many, 64]", "8: claims[1].with.figures: ", "many"),
        ("figures:", "figure:", "8: claims[1].with.figure: ", "figures?"),
        ("norms.parameters", "norms.by_hand", "8: claims[1].with: ", "norms.by_hand"),
        ("norms.parameters", "norms.parameter", "7: claims[1].check: ", "norms.parameters?"),
    ],
)
def test_a_fault_in_figures_has_its_place(tmp_path: Path, old: str, new: str, place: str, hint: str) -> None:
    assert old in FIGURES
    with pytest.raises(UserError) as caught:
        parse(FIGURES.replace(old, new), tmp_path / "mine.yaml")
    complaints = [line.replace(f"{tmp_path}/mine.yaml:", "") for line in caught.value.complaints]
    assert any(line.startswith(place) and hint in line for line in complaints), complaints


def test_a_failing_calculation_is_an_error_of_the_claim(tmp_path: Path) -> None:
    file = parse(FIGURES.replace("[64,", "[-3,"), tmp_path / "mine.yaml")
    with pytest.raises(UserError, match=r"mine.yaml:2: mine.norms: norms.parameters .*-3"):
        evaluate.judged(file, file.claims, tmp_path)
