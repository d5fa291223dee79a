"""The claims of papers: each calculation with opposite measurements, wrong formulas, and runs shared between sweeps."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from normexp.claims.calculations import calculate
from normexp.claims.claim import Kind, Word
from normexp.claims.files import choose
from normexp.claims.measures import MEASURES
from normexp.commands.app import app
from normexp.config import grid
from normexp.config.run import RunConfig
from normexp.config.sweep_file import load
from normexp.records.record import SignalRow, Traces
from normexp.report import report
from normexp.schemes.schemes import ONE, SCHEMES
from normexp.storage.store import Store
from normexp.texts.papers import initial, initial_gradient, initial_w2, outputs

SWEEPS = {name: choose([name])[0].sweeps for name in ("article", "papers")}
CALCULATED = {claim.check: claim for claim in choose(["papers"])[1] if claim.kind is Kind.COMPUTE}


def always(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def unbiased(norm: str, x_nd: Tensor) -> Tensor:
    """Apply RMSNorm, or LayerNorm with the variance divided by d - 1."""
    if norm == "ln":
        return (x_nd - x_nd.mean(-1, keepdim=True)) / x_nd.std(-1, keepdim=True)
    return x_nd / x_nd.square().mean(-1, keepdim=True).sqrt()


OPPOSITES: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "initial_stream.pre_linear": (initial, "mean_squares", always([1 + 1.6 * layer for layer in range(21)])),
    "initial_stream.post_constant": (initial, "before_norms", always((1.6,))),
    "initial_stream.ffn_norm_shrinks": (initial, "skip_factor", always(0.84)),
    "initial_stream.skip_shrinks": (initial, "skip_factor", always(0.73)),
    "initial_stream.skip_with_torch_weights": (initial, "skip_factor", always(0.7071)),
    "initial_stream.tokens_become_one": (initial, "top_cosines", always([0.7, 0.9, 0.95, 0.98])),
    "initial_stream.scaled_branches_keep_tokens": (initial, "top_cosines", always([0.1, 0.1, 0.1, 0.6])),
    "initial_stream.peri_linear": (initial, "mean_squares", always([1 + 1.7 * layer for layer in range(41)])),
    "initial_stream.lns_between": (initial, "expected_squares", lambda _, depth, *__: [0.1 * depth**1.5]),
    "initial_stream.lns_below_pre": (
        initial,
        "expected_squares",
        lambda name, depth, *_: [depth ** {"lns": 0.6, "pre": 1.0}[name]],
    ),
    "initial_stream.bare_doubles": (initial, "log2_growth", always(1.2)),
    "initial_gradient.pre_last_falls": (initial_w2, "last_w2_gradients", always([1.0, 0.9, 0.8, 0.7])),
    "initial_gradient.post_last_stays": (initial_w2, "last_w2_gradients", always([1.0, 0.7, 0.5, 0.32])),
    "initial_gradient.pre_top_falls": (initial, "top_stream_gradients", always([1.0, 0.9, 0.8, 0.7])),
    "initial_gradient.post_rises": (initial_w2, "top_over_bottom", lambda _, seed: 3.0 if seed % 2 else 0.5),
    "initial_gradient.pre_flat": (initial_w2, "top_over_bottom", always(0.7)),
    "initial_gradient.pre_falls": (initial_w2, "top_over_bottom", lambda _, seed: 1.1 if seed % 2 else 0.3),
    "initial_gradient.queries_lose_it": (initial, "first_q_gradients", always([1.0, 0.5, 0.2, 0.1])),
    "initial_gradient.scaled_branches_keep_it": (initial, "first_q_gradients", always([1.0, 0.5, 0.2, 0.09])),
    "initial_gradient.b2t_keeps_it": (
        initial,
        "first_q_gradients",
        lambda name, seeds: [1.0, 0.5, 0.2, {"b2t": 0.09, "post": 0.001}[name]],
    ),
    "initial_gradient.deepnorm_update_constant": (initial, "sgd_updates", always([1.0, 1.1, 1.2, 1.4])),
    "initial_gradient.post_update_grows": (initial, "sgd_updates", always([1.0, 4.0, 3.0, 9.0])),
    "initial_gradient.post_first_update_larger": (initial, "adam_updates", always([1.0] * 4)),
    "initial_gradient.deepnorm_equal": (initial, "w2_gradients", always([1.0, 1.3])),
    "initial_gradient.peri_bounded": (initial_w2, "growth_with_h", always([1.0, 1.0, 1.0, 1.0, 1.3])),
    "initial_gradient.pre_unbounded": (initial_w2, "growth_with_h", always([1.1, 1.2, 1.3, 1.4, 1.5])),
    "initial_gradient.narrowed_init_larger": (
        initial_w2,
        "top_layer_gradients",
        lambda _, narrowed: [1.0, 1.0, 1.0] if narrowed else [0.9, 0.8, 0.7],
    ),
    "initial_gradient.small_embedding_enlarges": (initial, "first_norm_gradients", always([1.0, 5.0, 20.0])),
    "initial_norm.rms_statistics": (outputs, "rms_statistics", always((0.5, 1.0))),
    "initial_norm.bounded": (outputs, "largest_output", always(8.0)),
    "initial_norm.invariance": (outputs, "normalized", lambda norm, x_nd: torch.tanh(x_nd)),
    "initial_norm.layer_norm_is_centred_rms": (outputs, "normalized", unbiased),
    "initial_norm.pre_layer_norm_folds": (outputs, "fold_errors", always((0.1, 0.7, 0.6))),
}
"""For each calculation, the function to replace and a replacement that reverses the result."""


def test_every_calculation_has_its_opposite() -> None:
    assert set(OPPOSITES) == set(CALCULATED)


@pytest.mark.parametrize("name", OPPOSITES)
def test_a_calculation_with_the_opposite_measured_comes_out_the_other_way(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, attribute, replaced = OPPOSITES[name]
    monkeypatch.setattr(target, attribute, replaced)
    assert calculate(name, 0).holds is (not set(CALCULATED[name].expected.words) & {Word.HOLDS, Word.HOLDS_WHEN})


def test_alpha_on_the_branch_is_no_deepnorm(monkeypatch: pytest.MonkeyPatch) -> None:
    row = SCHEMES["deepnorm"]
    monkeypatch.setitem(SCHEMES._rows, "deepnorm", replace(row, skip=ONE, branch_out=row.skip))
    monkeypatch.setattr(initial, "_seen", initial._seen.__wrapped__)
    assert initial_gradient.deepnorm_equal(0).holds is False


@pytest.mark.parametrize(
    ("name", "shared"),
    [("positions", ["5.2"]), ("warmup", ["2.3", "6.3"]), ("norms", ["6.2"]), ("deep", ["5.2-deep"])],
)
def test_sweeps_of_papers_share_runs_with_the_article(name: str, shared: list[str]) -> None:
    own = set(grid.plan(load(SWEEPS["papers"][name])).configs)
    known = {run_id for stem in shared for run_id in grid.plan(load(SWEEPS["article"][stem])).configs}
    assert len(own & known) == {"positions": 24, "warmup": 24, "norms": 6, "deep": 9}[name]
    assert len(own - known) == {"positions": 48, "warmup": 6, "norms": 6, "deep": 0}[name]


def test_runs_of_other_claims_files_are_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "write_figures", lambda *_: None)
    (tmp_path / "pair.yaml").write_text(
        "name: pair\nbase: {depth: 1, width: 8, heads: 1, hidden: 8, steps: 5}\n"
        "grid: {norm: [ln, none], seed: [0, 1]}\n"
    )
    (tmp_path / "mine.yaml").write_text(
        "sweeps: [pair.yaml]\nclaims:\n- {id: mine.a, section: '1', text: a, stated: a, kind: sweep, check: ends,"
        " seeds: 2, with: {outcomes: plateau}, runs: {sweeps: pair}}\n"
    )
    inline = ["--executor", "inline", "--jobs", "1"]
    with contextlib.chdir(tmp_path):
        first = CliRunner().invoke(
            app, ["sweep", "pair.yaml", "--out", "results/article", "--only", "norm=ln", *inline]
        )
        assert first.exit_code == 0, first.stderr
        done = CliRunner().invoke(app, ["claims", "mine.yaml", "--run", *inline])
        assert done.exit_code == 0, done.stderr
    records = Store(tmp_path / "results" / "mine" / "pair").records().values()
    assert {(record.config.norm, record.reused_from) for record in records} == {("ln", "pair"), ("none", None)}


def test_the_stream_bends_where_the_upper_half_adds_more_than_the_lower() -> None:
    squares = {0: 1.0, 1: 3.0, 2: 5.0, 3: 11.0, 4: 17.0}
    rows = tuple(
        SignalRow(step=step, layer=layer, part="stream", quantity="rms", value=math.sqrt(value if step else 1 + layer))
        for step in (0, 10)
        for layer, value in squares.items()
    )
    run, traces = RunConfig(depth=4, steps=10), Traces(curve=(), layers=rows)
    assert MEASURES["stream_bend_at_init"].of(run, traces) == pytest.approx(1.0)
    assert MEASURES["stream_bend_after"].of(run, traces) == pytest.approx(3.0)
    flat = Traces(curve=(), layers=tuple(replace(row, value=1.0) for row in rows))
    assert math.isnan(MEASURES["stream_bend_after"].of(run, flat))
