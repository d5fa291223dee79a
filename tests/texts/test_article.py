"""The calculated claims of the article: their verdicts, and that wrong norms and schemes change them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from calculations import OWN, SPEED
from torch import Tensor, nn
from typer.testing import CliRunner

from normexp.claims import evaluate
from normexp.claims.claim import Claim, Kind, Verdict, Weight, Word
from normexp.claims.files import choose
from normexp.commands.app import app
from normexp.errors import EXIT_VERDICT_DIFFERS
from normexp.model import norms as norm_table
from normexp.schemes.schemes import SCHEMES, Scale, constant
from normexp.texts.article import deepnorm

pytestmark = pytest.mark.usefixtures("alone")


def article() -> list[Claim]:
    return [claim for claim in choose(["article"])[1] if claim.kind is Kind.COMPUTE]


def judged(claims: Sequence[Claim], folder: Path) -> dict[str, Verdict]:
    file = choose(["article"])[0]
    return {verdict.claim.id: verdict for verdict in evaluate.judged(file, claims, folder)}


def named(*ids: str) -> list[Claim]:
    return [claim for claim in article() if claim.id.removeprefix("article.") in ids]


LONG = {
    "conversion.loss_rises",
    "deepnorm.tames",
    "drift.printed",
    "gradients.exponential_by_skip",
    "gradients.larger_at_the_top",
    "gradients.top_heavy",
    "stream.early_is_readable",
    "stream.plain_overwrites",
}


@pytest.mark.parametrize("long", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_article_s_calculations_come_out_as_the_file_expects(long: bool, tmp_path: Path) -> None:
    """Calculations run with one seed; the longest ones only in the slow tests."""
    left_out = {*SPEED, "gradients.exponential"}
    of_time = [claim for claim in article() if claim.check not in left_out and (claim.check in LONG) is long]
    claims = [replace(claim, seeds=1) for claim in of_time]
    assert all(claim.expected is None for claim in article() if claim.check in SPEED)
    for verdict in judged(claims, tmp_path).values():
        assert verdict.word in verdict.claim.expected.words, f"{verdict.claim.id}: {verdict.text}"


def test_every_entry_has_a_sentence_of_the_article_and_its_translation() -> None:
    """A quote starts with Chinese, with code or with a comment in code. A translation is in English, so in ASCII."""
    claims = choose(["article"])[1]
    for claim in claims:
        start = claim.quote[:12]
        assert any(letter in "#=([" or not letter.isascii() for letter in start), f"{claim.id}: {start!r}"
        assert claim.translation.isascii(), claim.id
        assert claim.translation, claim.id
    assert 10 <= sum(claim.weight is Weight.CENTRAL for claim in claims) <= 25


def test_the_article_s_claims_use_every_calculation_of_its_own() -> None:
    assert {claim.check for claim in article()} == set(OWN)


class UnbiasedLayerNorm(nn.LayerNorm):
    """A wrong LayerNorm: its variance is divided by d - 1."""

    def forward(self, x: Tensor) -> Tensor:
        x_hat = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + self.eps).sqrt()
        return self.weight * x_hat + self.bias


def test_a_layer_norm_with_unbiased_variance_changes_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = (
        "1.1.pinned",
        "1.3.layer_norm_by_hand",
        "2.1.exit_norms",
        "2.1.post_pinned",
        "3.3.output_statistics",
        "4.4.printed_norms",
    )
    claims = named(*ids)
    assert len(claims) == len(ids)
    assert not any(verdict.differs for verdict in judged(claims, tmp_path).values())
    wrong = {**norm_table.MODULES, "ln": lambda width, run: UnbiasedLayerNorm(width, eps=run.eps)}
    monkeypatch.setattr(norm_table, "MODULES", wrong)
    for verdict in judged(claims, tmp_path).values():
        assert verdict.word is Word.REFUTED, verdict.claim.id
        assert verdict.differs


@pytest.mark.slow
def test_then_the_command_exits_with_3(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["claims", "article.1.1.pinned"]
    assert CliRunner().invoke(app, asked).exit_code == 0
    monkeypatch.setattr(norm_table, "MODULES", {**norm_table.MODULES, "ln": norm_table.MODULES["dyt"]})
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == EXIT_VERDICT_DIFFERS == 3
    assert "The file expects: holds." in done.stdout


def test_deepnorm_with_alpha_on_the_branch_changes_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = [replace(claim, seeds=1) for claim in named("5.2.deepnorm_tames")]
    monkeypatch.setattr(deepnorm, "DEPTHS", (4, 16))
    right = SCHEMES["deepnorm"]
    (before,) = judged(claims, tmp_path).values()
    assert (before.text, before.differs) == (f"holds when {deepnorm.SKIP}", False)
    wrong = replace(right, skip=constant(1.0), branch_out=Scale(right.skip.value))
    monkeypatch.setitem(SCHEMES._rows, "deepnorm", wrong)
    (after,) = judged(claims, tmp_path).values()
    assert after.text == f"holds when {deepnorm.BRANCH}"
