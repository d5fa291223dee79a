"""Calculations: each with what must bear it out and with what must not; the shipped claims; norms made wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

from normexp.claims import trial
from normexp.claims.claim import Claim, Finding, Kind, Word
from normexp.claims.computed import COMPUTED, calculate
from normexp.claims.files import choose
from normexp.claims.predicted import PREDICTED
from normexp.claims.reading import parse
from normexp.claims.snippets import (
    attention,
    batches,
    conversion,
    deepnorm,
    drift,
    figures,
    gradients,
    models,
    norms,
    precision,
    residual,
    skeleton,
    speed,
    stream,
)
from normexp.claims.verdict import Verdict
from normexp.cli.app import app
from normexp.errors import EXIT_VERDICT_DIFFERS, UserError
from normexp.models import load as load_models
from normexp.nn import norms as norm_table
from normexp.nn.network import Network, build
from normexp.run import RunConfig
from normexp.schemes import SCHEMES, Scale, constant
from normexp.training import bench, fold
from normexp.training.threads import alone

OWN = [name for name in COMPUTED if name not in PREDICTED]
SPEED = [name for name in OWN if name.startswith("speed.")]
Made = Callable[[], Finding]
Made1 = Callable[[int], Finding]


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    with alone():
        yield


def article() -> list[Claim]:
    return [claim for claim in choose(["article"])[1] if claim.kind is Kind.COMPUTE]


def table(**changed: dict[str, str]) -> list[Any]:
    """The table of models, with cells of one model each changed; the model's name with _ for a space."""
    rows = []
    for model in load_models():
        cells = dict(model.cells)
        for cell, text in changed.get(model.model.replace(" ", "_").replace("-", "_"), {}).items():
            cells[cell] = replace(cells[cell], text=text)
        rows.append(replace(model, cells=cells))
    return rows


GROWING = ["8.0", "19", "45", "106"]


CASES: dict[str, tuple[list[Made], list[Made]]] = {
    "drift.printed": (
        [lambda: drift.printed(0, [f"{value:.2f}" for value in drift.stack(0, 0.3)])],
        [lambda: drift.printed(0, [*GROWING[:-1], "110"])],
    ),
    "drift.shrinks": (
        [lambda: drift.shrinks(1)],
        [lambda: drift.shrinks(1, drift.STD)],
    ),
    "drift.gone_in": (
        [lambda: drift.gone_in(0, ["2", "0.1", "8", "0.5", "0.1"])],
        [lambda: drift.gone_in(0, ["1", "0.1", "8", "0.5", "0.1"])],
    ),
    "drift.underflows": ([lambda: drift.underflows(0, ["12"], 1e-6)], [lambda: drift.underflows(0, ["7"])]),
    "drift.explodes": (
        [lambda: drift.explodes(0, ["4", "4", "1e4"])],
        [lambda: drift.explodes(0, ["0.01", "4", "1e4"])],
    ),
    "drift.pinned": (
        [lambda: drift.pinned(0), lambda: drift.pinned(0, "rms")],
        [lambda: drift.pinned(0, "none"), lambda: drift.pinned(0, "dyt")],
    ),
    "batches.printed_batch": (
        [lambda: batches.printed_batch(0, printed_digits(batches.printed_batch, 6))],
        [lambda: batches.printed_batch(0, ["1.0"] * 6)],
    ),
    "batches.printed_sequences": (
        [lambda: batches.printed_sequences(0, printed_digits(batches.printed_sequences, 4))],
        [lambda: batches.printed_sequences(0, ["1.0"] * 4)],
    ),
    "batches.one_alone": (
        [lambda: batches.one_alone(0, ["1.08", "4.35", "1.080", "4.350"])],
        [lambda: batches.one_alone(0, ["1.08", "4.35", "1.08", "4.36"])],
    ),
    "batches.per_token": ([lambda: batches.per_token(0, "bn")], [lambda: batches.per_token(0)]),
    "batches.alone": (
        [lambda: batches.alone(0), lambda: batches.alone(0, "rms")],
        [lambda: batches.alone(0, "bn")],
    ),
    "batches.padding": ([lambda: batches.padding(0)], [lambda: batches.padding(0, "ln")]),
    "batches.noise": ([lambda: batches.noise(0)], [lambda: batches.noise(0, "ln")]),
    "norms.by_hand": ([lambda: norms.by_hand(0)], [lambda: norms.by_hand(0, "rms")]),
    "norms.error_printed": (
        [lambda: norms.error_printed(0, ["1e-6", "1e-6"])],
        [lambda: norms.error_printed(0, ["0.0", "1e-6"])],
    ),
    "norms.standardized": ([lambda: norms.standardized(0)], [lambda: norms.standardized(0, "rms")]),
    "norms.parameters": (
        [lambda: norms.parameters(0, ["64", "128", "64"])],
        [lambda: norms.parameters(0, ["64", "128", "128"])],
    ),
    "norms.model_parameters": (
        [lambda: norms.model_parameters(0, ["8", "2", "3", "96", "48"])],
        [lambda: norms.model_parameters(0, ["8", "2", "3", "96", "96"])],
    ),
    "norms.small_share": (
        [lambda: norms.small_share(0, ["7e9", "262144"])],
        [lambda: norms.small_share(0, ["7e6", "262144"])],
    ),
    "norms.exits": (
        [lambda: norms.exits(0, ["8.0000", "8.3924"])],
        [lambda: norms.exits(1, ["8.0000", "8.3924"])],
    ),
    "norms.output_statistics": (
        [lambda: norms.output_statistics(0, ["0.0000", "0.0000", "0.4475", "0.0324", "1.0010", "0.8944"])],
        [lambda: norms.output_statistics(0, ["0.0000", "0.0000", "0.4475", "0.0324", "1.0000", "0.8944"])],
    ),
    "norms.mean_kept": (
        [lambda: norms.mean_kept(0)],
        [lambda: norms.mean_kept(0, "ln"), lambda: norms.mean_kept(0, "rms", "rms")],
    ),
    "norms.mean_takes_share": ([lambda: norms.mean_takes_share(0)], [lambda: norms.mean_takes_share(0, "ln")]),
    "norms.mean_square": ([lambda: norms.mean_square(0, ["1.0"])], [lambda: norms.mean_square(0, ["1.1"])]),
    "gradients.top_heavy": (
        [lambda: layered(gradients.top_heavy, post=0.1, pre=0.0)],
        [
            lambda: layered(gradients.top_heavy, post=0.0, pre=0.0),
            lambda: layered(gradients.top_heavy, post=0.1, pre=0.1),
        ],
    ),
    "gradients.larger_at_the_top": (
        [lambda: layered(gradients.larger_at_the_top, post=0.1, pre=0.0)],
        [lambda: layered(gradients.larger_at_the_top, post=0.0, pre=0.0)],
    ),
    "gradients.exponential": (
        [lambda: layered(gradients.exponential, post=0.1, pre=0.01)],
        [
            lambda: layered(gradients.exponential, post=0.01, pre=0.1),
            lambda: layered(gradients.exponential, post=0.1, pre=0.1),
        ],
    ),
    "gradients.norm_amplifies": (
        [lambda: gradients.norm_amplifies(0, residual=False)],
        [lambda: gradients.norm_amplifies(0)],
    ),
    "gradients.does_not_vanish": (
        [lambda: layered(gradients.does_not_vanish, pre=0.0), lambda: layered(gradients.does_not_vanish, pre=-0.1)],
        [lambda: layered(gradients.does_not_vanish, pre=0.1)],
    ),
    "gradients.post_has_no_floor": (
        [lambda: layered(gradients.post_has_no_floor, post=0.1)],
        [lambda: layered(gradients.post_has_no_floor, post=0.01)],
    ),
    "models.timeline": (
        [lambda: models.timeline(0, {"T5": ("RMS", "pre", "none")})],
        [lambda: models.timeline(0)],
    ),
    "models.post_to_pre": (
        [lambda: models.post_to_pre(0)],
        [lambda: models.post_to_pre(0, table(BERT={"position": "pre"})), lambda: models.post_to_pre(0, [])],
    ),
    "models.rms_replaces": (
        [lambda: models.rms_replaces(0)],
        [lambda: models.rms_replaces(0, [model for model in load_models() if model.model in ("T5", "Qwen3")])],
    ),
    "models.mainstream": (
        [lambda: models.mainstream(0)],
        [lambda: models.mainstream(0, [m for m in load_models() if m.cells["position"].text != "pre"])],
    ),
    "models.pre_has_final_norm": (
        [lambda: models.pre_has_final_norm(0)],
        [lambda: models.pre_has_final_norm(0, table(T5={"final_norm": "no"}))],
    ),
    "precision.rms_range_is_wider": (
        [lambda: precision.rms_range_is_wider(0, "ln", "rms")],
        [lambda: precision.rms_range_is_wider(0)],
    ),
    "precision.variance_underflows": (
        [lambda: precision.variance_underflows(0)],
        [lambda: precision.variance_underflows(0, 1.0)],
    ),
    "residual.printed": (
        [lambda: residual.printed(0, printed_digits(residual.printed, 4))],
        [lambda: residual.printed(0, ["13.79", "12.15", "0.881", "6.19"])],
    ),
    "residual.share": (
        [lambda: residual.share(0, printed_digits(residual.share, 1))],
        [lambda: residual.share(0, ["0.5"])],
    ),
    "residual.is_a_share": ([lambda: residual.is_a_share(0, 0.0)], [lambda: residual.is_a_share(0)]),
    "residual.adds_up": ([lambda: residual.adds_up(0)], [lambda: residual.adds_up(0, skip=2.0)]),
    "residual.mostly_identity": ([lambda: residual.mostly_identity(0)], [lambda: residual.mostly_identity(0, 10.0)]),
    "residual.halves": ([lambda: residual.halves(0)], [lambda: residual.halves(0, 10.0)]),
    "residual.shrinks_without": (
        [lambda: residual.shrinks_without(0)],
        [lambda: residual.shrinks_without(0, residual=True)],
    ),
    "residual.floor_with": ([lambda: residual.floor_with(0)], [lambda: residual.floor_with(0, residual=False)]),
    "residual.less_sensitive": (
        [lambda: residual.less_sensitive(0)],
        [lambda: residual.less_sensitive(0, one=False, other=True)],
    ),
    "stream.printed": (
        [lambda: stream.printed(0, printed_digits(stream.printed, 14))],
        [lambda: stream.printed(1, printed_digits(stream.printed, 14))],
    ),
    "stream.growth": (
        [lambda: stream.growth(0, ["11.25", "13.66", "1.21", "1.6"])],
        [lambda: stream.growth(0, ["11.25", "13.66", "1.21", "1.5"])],
    ),
    "stream.writes_shrink": (
        [lambda: stream.writes_shrink(0)],
        [lambda: streaming(0.5, stream.writes_shrink), lambda: streaming(0.1, stream.writes_shrink)],
    ),
    "stream.starts_near_zero": (
        [lambda: streaming(0.01, stream.starts_near_zero)],
        [lambda: stream.starts_near_zero(0)],
    ),
    "stream.post_pins": ([lambda: stream.post_pins(0)], [lambda: stream.post_pins(0, "pre")]),
    "stream.pre_grows": ([lambda: stream.pre_grows(0)], [lambda: stream.pre_grows(0, "post")]),
    "stream.growth_at_start": (
        [lambda: stream.growth_at_start(0, ["1.2"])],
        [lambda: stream.growth_at_start(0, ["7"])],
    ),
    "stream.early_is_readable": (
        [lambda: stream.early_is_readable(0)],
        [lambda: reading(stream.early_is_readable, 1.0, 0.5, 1.0)],
    ),
    "stream.plain_overwrites": (
        [lambda: stream.plain_overwrites(0)],
        [lambda: reading(stream.plain_overwrites, 1.0, 0.1, 0.6)],
    ),
    "attention.parameters": (
        [
            lambda: attention.parameters(0, ["64", "1", "128"]),
            lambda: attention.parameters(0, ["64", "4", "128"], "full"),
        ],
        [lambda: attention.parameters(0, ["64", "4", "128"])],
    ),
    "attention.unit_variance": ([lambda: attention.unit_variance(0)], [lambda: attention.unit_variance(0, 1.1)]),
    "attention.bounded": (
        [lambda: attention.bounded(0), lambda: attention.bounded(0, "ln")],
        [lambda: attention.bounded(0, "none")],
    ),
    "attention.saturates": ([lambda: attention.saturates(0)], [lambda: attention.saturates(0, 2.0)]),
    "deepnorm.tames": ([lambda: deepnorm.tames(0)], [lambda: deepnorm.tames(0, "post")]),
    "skeleton.sees_context": (
        [lambda: skeleton.sees_context(0)],
        [lambda: skeleton.sees_context(0, ["as written"])],
    ),
    "skeleton.norm_free": (
        [lambda: skeleton.norm_free(0, "none", "post")],
        [lambda: skeleton.norm_free(0), lambda: skeleton.norm_free(0, "rms")],
    ),
    "skeleton.position_means_nothing": (
        [lambda: skeleton.position_means_nothing(0, other="pre")],
        [lambda: skeleton.position_means_nothing(0)],
    ),
    "skeleton.same_start": ([lambda: skeleton.same_start(0)], [lambda: skeleton.same_start(0, other_seed=1)]),
    "skeleton.gelu_saturates": (
        [lambda: skeleton.gelu_saturates(0, ["1000"], torch.tanh)],
        [lambda: skeleton.gelu_saturates(0, ["1000"])],
    ),
    "skeleton.final_norm_printed": (
        [lambda: skeleton.final_norm_printed(0, ["11.31"])],
        [lambda: skeleton.final_norm_printed(0, ["8.00"])],
    ),
    "skeleton.check_finds_the_fault": (
        [lambda: skeleton.check_finds_the_fault(0, forgetful=False)],
        [lambda: skeleton.check_finds_the_fault(0)],
    ),
    "conversion.load_fails": ([lambda: conversion.load_fails(0)], [lambda: conversion.load_fails(0, "rms", "rms")]),
    "conversion.keys_kept": ([lambda: conversion.keys_kept(0)], [lambda: conversion.keys_kept(0, [])]),
    "conversion.gains_alone_are_wrong": (
        [lambda: conversion.gains_alone_are_wrong(0)],
        [lambda: conversion.gains_alone_are_wrong(0, fold.folded)],
    ),
    "conversion.no_exact_map": (
        [lambda: conversion.no_exact_map(0, "post")],
        [lambda: conversion.no_exact_map(0)],
    ),
    "conversion.rms_to_layer_norm_is_wrong": (
        [lambda: conversion.rms_to_layer_norm_is_wrong(0)],
        [lambda: conversion.rms_to_layer_norm_is_wrong(0, unchanged)],
    ),
    "conversion.loss_rises": ([lambda: conversion.loss_rises(0)], [lambda: conversion.loss_rises(0, 1)]),
    "conversion.pre_then_post": (
        [lambda: conversion.pre_then_post(0)],
        [lambda: switched_to_fresh_weights()],
    ),
}
"""Name to calls that must bear it out (or `only when`), and calls that must not."""


def layered(calculation: Made1, **rates: float) -> Finding:
    """With gradients that grow from layer to layer as an exponential of this rate, by position."""

    def sizes(config: RunConfig) -> list[float]:
        return [math.exp(rates[config.position] * layer) for layer in range(1, config.depth + 1)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradients, "by_layer", sizes)
        patch.setattr(gradients, "of_stream", sizes)
        return calculation(0)


def streaming(write: float, calculation: Made1) -> Finding:
    """With a stream to which every block adds so much of it."""
    streams = [torch.ones(1, 2, 4) * (1 + write) ** layer for layer in range(13)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "printed_streams", lambda seed: streams)
        return calculation(0)


def reading(calculation: Made1, *rates: float) -> Finding:
    """With a probe that is right so often, layer by layer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "readable", lambda config: list(rates))
        return calculation(0)


def switched_to_fresh_weights() -> Finding:
    """Where the switch loses everything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conversion, "moved", lambda network, position: build(replace(network.config, position=position)))
        return conversion.pre_then_post(0)


def unchanged(network: Network) -> fold.Converted:
    """Nothing replaced."""
    return fold.Converted(method="none", network=network)


def printed_digits(calculation: Callable[[int, Sequence[str]], Finding], count: int) -> list[str]:
    """What it gives with seed 0, to three digits after the point."""
    return calculation(0, ["0.000"] * count).measured.split(", ")


def test_every_calculation_has_its_cases() -> None:
    assert {*CASES, *SPEED} == {*OWN}
    for name, (holding, failing) in CASES.items():
        assert holding, name
        assert failing, name
    for name in OWN:
        subject, _, function = name.partition(".")
        made = getattr(import_module(f"normexp.claims.snippets.{subject}"), function)
        assert (made.__code__.co_varnames[1] == "figures") == COMPUTED[name].takes_figures


@pytest.mark.parametrize("name", CASES)
def test_what_must_bear_out_does(name: str) -> None:
    for number, made in enumerate(CASES[name][0]):
        finding = made()
        assert finding.holds is True, f"{number}: {finding.sentence}"
        assert finding.word in (None, Word.ONLY_WHEN)
        assert bool(finding.setting) == (finding.word is Word.ONLY_WHEN)
        assert finding.measured
        assert finding.measured in finding.sentence or finding.word is None


@pytest.mark.parametrize("name", CASES)
def test_what_must_not_does_not(name: str) -> None:
    for number, made in enumerate(CASES[name][1]):
        finding = made()
        assert finding.holds is False, f"{number}: {finding.sentence}"
        assert finding.word in (None, Word.CONTRADICTING, Word.MISQUOTED)


def test_an_exponential_is_told_from_a_power_law() -> None:
    assert gradients.exponential_in_depth([1.0, 2.0, 4.0])
    assert not gradients.exponential_in_depth([1.0, 2.0, 3.0])
    assert not gradients.exponential_in_depth([4.0, 2.0, -2.0]), "it falls"


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

    def test_values_stand_beside_what_is_printed(self) -> None:
        assert figures.beside([7.9149, 1e9], ["7.9", "1"], "norms").measured == "7.9, 1e+09"
        wrong = figures.beside([7.9149], ["8.0"], "norms")
        assert (wrong.holds, wrong.sentence) == (False, "norms: 7.9, where 8.0 is printed")
        assert not figures.beside([1.0], ["1.0", "2.0"], "norms").holds

    def test_circumstances(self) -> None:
        yes, no = (True, "1"), (False, "0")
        assert figures.circumstances({"a": yes, "b": yes}, {"c": no}, "s").word is None
        partly = figures.circumstances({"a": no, "b": yes, "d": yes}, {"c": yes}, "s")
        assert (partly.word, partly.setting, partly.measured) == (Word.ONLY_WHEN, "b and d", "a: 0; b: 1; d: 1; c: 1")
        assert figures.circumstances({"a": no}, {"c": yes}, "s").setting == "c"
        none = figures.circumstances({"a": no}, {"c": no}, "s")
        assert (none.holds, none.word) == (False, None)


class TestSpeed:
    """With times made up: those of this machine decide nothing here."""

    def at(self, monkeypatch: pytest.MonkeyPatch, layer_norm: float, by_hand: float) -> Callable[[str], bool | None]:
        times = {bench.REFERENCE: layer_norm, "handwritten": by_hand, "normexp": layer_norm}
        monkeypatch.setattr(speed, "medians", lambda shape: times)
        return lambda name: calculate(f"speed.{name}", 0, {"times_printed": ["96", "78"]}.get(name, ["14", "15"])).holds

    def test_times(self, monkeypatch: pytest.MonkeyPatch) -> None:
        holds = self.at(monkeypatch, 100.0, 85.5)
        assert holds("times_printed")
        assert holds("by_hand_is_faster")
        assert not holds("by_hand_is_slower")
        assert holds("same_gain_everywhere")
        holds = self.at(monkeypatch, 100.0, 170.0)
        assert not holds("times_printed")
        assert not holds("by_hand_is_faster")
        assert holds("by_hand_is_slower")
        assert not holds("same_gain_everywhere")

    def test_memory(self) -> None:
        assert speed.benchmark_fits(0, calls=1).holds
        assert not speed.benchmark_fits(0, calls=10**9).holds

    @pytest.mark.parametrize(("microseconds", "holds"), [(50.0, False), (75.0, True), (100.0, False)])
    def test_share(self, monkeypatch: pytest.MonkeyPatch, microseconds: float, holds: bool) -> None:
        """25 norms, forward and backward three times the forward pass, in steps of 10 ms."""
        monkeypatch.setattr(speed, "medians", lambda shape: {bench.REFERENCE: microseconds})
        rounds = bench.steps(dict.fromkeys(("ln", "rms"), RunConfig(depth=1, width=8, heads=1)), 1, "")
        monkeypatch.setattr(speed, "steps", lambda *_: replace(rounds, seconds={"ln": [0.01], "rms": [0.0095]}))
        finding = speed.share_in_model(0, ["15", "7", "9"])
        assert finding.holds is holds, finding.sentence
        assert "with RMSNorm 5% less" in finding.sentence

    def test_what_is_measured(self) -> None:
        times = speed.medians((32, 8))
        assert set(times) == {bench.REFERENCE, "handwritten", "normexp"}
        assert all(0 < value < 1e6 for value in times.values())


def judged(claims: Sequence[Claim], folder: Path) -> dict[str, Verdict]:
    file = choose(["article"])[0]
    return {verdict.claim.id: verdict for verdict in trial.judged(file, claims, folder)}


def named(*ids: str) -> list[Claim]:
    return [claim for claim in article() if claim.id.removeprefix("article.") in ids]


def test_the_article_s_calculations_come_out_as_the_file_expects(tmp_path: Path) -> None:
    """With one seed each; what takes longest is left to the command."""
    left_out = {*SPEED, "gradients.exponential"}
    claims = [replace(claim, seeds=1) for claim in article() if claim.check not in left_out]
    assert all(claim.expected is None for claim in article() if claim.check in SPEED)
    for verdict in judged(claims, tmp_path).values():
        assert verdict.word is verdict.claim.expected, f"{verdict.claim.id}: {verdict.text}"


def test_the_article_s_claims_use_every_calculation_of_its_own() -> None:
    assert {claim.check for claim in article()} == set(OWN)


class UnbiasedLayerNorm(nn.LayerNorm):
    """LayerNorm gone wrong: the variance divided by d - 1."""

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
        assert verdict.word is Word.NOT_REPRODUCED, verdict.claim.id
        assert verdict.differs


def test_then_the_command_exits_with_3(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["claims", "article.1.1.pinned"]
    assert CliRunner().invoke(app, asked).exit_code == 0
    monkeypatch.setattr(norm_table, "MODULES", {**norm_table.MODULES, "ln": norm_table.MODULES["dyt"]})
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == EXIT_VERDICT_DIFFERS == 3
    assert "The file expects: reproduced." in done.stdout


def test_deepnorm_with_alpha_on_the_branch_changes_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = [replace(claim, seeds=1) for claim in named("5.2.deepnorm_alpha")]
    monkeypatch.setattr(deepnorm, "DEPTHS", (4, 16))
    right = SCHEMES["deepnorm"]
    (before,) = judged(claims, tmp_path).values()
    assert (before.text, before.differs) == (f"only when {deepnorm.SKIP}", False)
    wrong = replace(right, skip=constant(1.0), branch_out=Scale(right.skip.value))
    monkeypatch.setitem(SCHEMES._rows, "deepnorm", wrong)
    (after,) = judged(claims, tmp_path).values()
    assert after.differs
    assert after.word is Word.REPRODUCED


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


def test_figures_of_a_claims_file_of_one_s_own(tmp_path: Path) -> None:
    for text, word in ((FIGURES, Word.REPRODUCED), (FIGURES.replace("128", "127"), Word.NOT_REPRODUCED)):
        file = parse(text, tmp_path / "mine.yaml")
        assert file.claims[0].parameters["figures"][0] == "64"
        (verdict,) = trial.judged(file, file.claims, tmp_path)
        assert verdict.word is word
        assert verdict.findings[0].measured == "64, 128, 64"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("    with: {figures: [64, 128, 64]}\n", "", "7: claims[1].with: norms.parameters needs figures"),
        ("[64, 128, 64]", "[64, 128]", "8: claims[1].with.figures: norms.parameters compares with 3 figures, not 2"),
        ("[64, 128, 64]", "[]", "8: claims[1].with.figures: is empty: write the figures of the text"),
        ("[64, 128, 64]", "[64, many, 64]", "8: claims[1].with.figures: 'many' is not a number"),
        ("figures:", "figure:", "8: claims[1].with.figure: unknown key; did you mean figures?"),
        ("norms.parameters", "norms.by_hand", "8: claims[1].with: norms.by_hand compares with no figures: drop it"),
        ("norms.parameters", "norms.parameter", "7: claims[1].check: 'norms.parameter' is not there; did you mean"),
    ],
)
def test_a_fault_in_figures_is_told(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in FIGURES
    with pytest.raises(UserError) as caught:
        parse(FIGURES.replace(old, new), tmp_path / "mine.yaml")
    told = [line.replace(f"{tmp_path}/mine.yaml:", "") for line in caught.value.complaints]
    assert any(line.startswith(complaint) for line in told), told


def test_figures_of_which_nothing_can_be_made_are_told_with_the_claim(tmp_path: Path) -> None:
    file = parse(FIGURES.replace("[64,", "[-3,"), tmp_path / "mine.yaml")
    with pytest.raises(UserError, match=r"mine.yaml:2: mine.norms: norms.parameters cannot be made with figures -3"):
        trial.judged(file, file.claims, tmp_path)


def test_random_state_and_threads_are_given_back() -> None:
    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    calculate("norms.by_hand", 0)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
