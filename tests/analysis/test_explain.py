"""The explanation of one run, and its reproduction."""

import io
import math
from dataclasses import replace
from pathlib import Path

import pytest
import records
from rich.console import Console

from normexp.analysis.explain import nearest, reasons, story
from normexp.commands.explain import command as explain
from normexp.config.run import RunConfig
from normexp.errors import UserError
from normexp.records.record import CurveRow, Death, RunRecord, SignalRow, Traces
from normexp.storage.store import Store
from normexp.terminal import repro

SICK = records.dead(RunConfig(norm="none", lr=1e-2), step=12)
NEAR = records.done(RunConfig(norm="ln", lr=1e-2), 2.0)
NEARER = records.done(RunConfig(norm="none", lr=3e-3), 2.5)
NEARER_STILL = records.done(RunConfig(norm="none", lr=9e-3), 2.6)
PLATEAU = records.done(RunConfig(norm="none", lr=9.9e-3), 4.06)
FAR = records.done(RunConfig(norm="rms", lr=1e-4, depth=2), 1.9)


class TestStory:
    @pytest.mark.parametrize(
        ("record", "others", "facts"),
        [
            (
                SICK,
                [],
                [
                    "outcome: nonfinite, since nan in loss at step 12",
                    "step 12, nan in loss blocks.3.ffn.fc1 (layer 4)",
                    "norm=none",
                    "lr=0.01",
                    "floor 1.500, bigram loss 3.000, unigram loss 4.070",
                ],
            ),
            (NEAR, [FAR], ["learned fraction: 0.805"]),
            (records.failed(RunConfig()), [], ["  error: Traceback: it broke"]),
            (replace(SICK, numerics=0, reused_from="other"), [], ["OUTDATED", "reused from other"]),
        ],
        ids=["non-finite", "learned", "failed", "outdated and reused"],
    )
    def test_facts(self, record: RunRecord, others: list[RunRecord], facts: list[str]) -> None:
        text = "\n".join(story(record, others))
        assert [fact for fact in facts if fact not in text] == []
        assert "nearest" not in text

    def test_is_folded_between_words_on_a_terminal(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        store = Store(tmp_path / "one")
        store.begin(records.plan({"lr": [1e-2]}, name="one", norm="none"), [], force=False)
        store.write(SICK)
        screen = Console(file=io.StringIO(), width=60, force_terminal=True, color_system=None, soft_wrap=True)
        monkeypatch.setattr("normexp.terminal.console.output", lambda: screen)
        explain(SICK.run_id, out=tmp_path)
        assert isinstance(screen.file, io.StringIO)
        text_of_run, path = screen.file.getvalue().split("  stored in: ")
        assert max(map(len, text_of_run.splitlines())) <= 60
        assert text_of_run.split() == "\n".join(story(SICK, [])).split()
        assert path.startswith(f"{store.folder / 'runs' / SICK.run_id}\n")


def signal(step: int, quantity: str, *sizes: float, first: int = 1, part: str = "mixer") -> list[SignalRow]:
    """The sizes of consecutive layers."""
    return [
        SignalRow(step=step, layer=layer, part=part, quantity=quantity, value=size)
        for layer, size in enumerate(sizes, start=first)
    ]


def stream(step: int, *sizes: float) -> list[SignalRow]:
    return signal(step, "rms", *sizes, first=0, part="stream")


def dead(
    where: str,
    layers: list[SignalRow],
    last: list[SignalRow],
    *,
    layer: int = 2,
    kind: str = "inf",
    tensor: str = "blocks.1.mixer.norm",
    **keys: object,
):
    """A run of depth 3 that became non-finite at step 31."""
    record = records.dead(RunConfig(depth=3, norm="none", **keys), step=31)
    death = Death(step=31, kind=kind, where=where, tensor=tensor, layer=layer)
    return replace(
        record,
        result=replace(record.result, death=death),
        traces=replace(record.traces, layers=layers, death_layers=last),
    )


class TestReasons:
    def test_a_gradient_that_overflows_names_the_pass_the_layer_and_the_growth_of_the_activations(self) -> None:
        before = stream(0, 1, 2, 4, 8, 8) + signal(0, "grad_norm", 1, 1, 1)
        last = [
            *stream(29, 1, 2e3, 4e3, 7e3, 7e3),
            *stream(30, 1, 2e3, 4e3, 8e3, 8e3),
            *stream(31, 1, 2e4, 4e5, 8e7, 8e7),
            *signal(30, "grad_norm", 2, 2, 2),
            *signal(31, "grad_norm", math.nan, math.inf, 5e20),
        ]
        why, *rest = reasons(dead("grad", before, last))
        assert why == (
            "why: The gradient overflowed on its way back, at layer 2; activations had grown 1e+07-fold in 31 steps."
            " The forward pass was finite."
        )
        (growth,) = [line for line in rest if "During training, the RMS" in line]
        assert "grew 1e+07-fold at layer 3, from 8 before training to 8e+07 at step 31" in growth
        assert "fastest between steps 30 and 31 (1e+04-fold)" in growth
        (forward,) = [line for line in rest if "from the embedding" in line]
        assert "At step 31, the RMS of the residual stream grew 8e+07-fold from the embedding to layer 3" in forward
        assert "from 1 to 8e+07; before training it grew 8-fold" in forward

    def test_the_gradient_is_followed_from_the_last_layer_to_the_last_finite_one(self) -> None:
        layers = signal(0, "grad_norm", 1, 1, 4, 4)
        last = signal(31, "grad_norm", math.nan, math.inf, 3e30, 1e20)
        record = dead("grad", layers, last)
        (backward,) = [line for line in reasons(record) if "At step 31, the gradient" in line]
        assert "grew 3e+10-fold from the LM head to layer 3, from 1e+20 to 3e+30" in backward
        assert "; before training it was about the same" in backward

    @pytest.mark.parametrize(
        ("where", "kind", "fact"),
        [
            ("activation", "inf", "The forward pass overflowed at layer 2"),
            ("activation", "nan", "The forward pass became NaN at layer 2"),
            ("loss", "inf", "The loss overflowed. The forward pass was finite up to the logits."),
            (
                "param",
                "nan",
                "Update 31 made a weight of layer 2 non-finite. The forward and the backward pass were finite.",
            ),
            (
                "optimizer",
                "inf",
                "A second moment of Adam, the square of a gradient of layer 2, overflowed. The forward",
            ),
            ("validation", "nan", "The evaluation after step 31 became NaN at layer 2"),
        ],
    )
    def test_every_place_of_a_first_non_finite_number(self, where: str, kind: str, fact: str) -> None:
        assert fact in reasons(dead(where, [], [], kind=kind))[0]

    def test_an_evaluation_before_training(self) -> None:
        record = dead("validation", stream(0, 1, 50, math.inf), [])
        record = replace(record, result=replace(record.result, death=replace(record.result.death, step=0)))
        why, forward, unknown = reasons(record)
        assert why == "why: The evaluation before training overflowed at layer 2."
        assert "Before training, the RMS of the residual stream grew 50-fold from the embedding to layer 1" in forward
        assert "of one step only" in unknown

    def test_the_largest_number_is_told_if_squares_exceed_it_or_the_dtype_is_short(self) -> None:
        small, large = stream(31, 1, 10), stream(31, 1, 3e19)
        assert "largest float32 number" not in reasons(dead("activation", [], small))[0]
        assert "largest float32 number" not in reasons(dead("activation", [], large, tensor="blocks.1.mixer.f"))[0]
        assert (
            "The square of the stream's RMS, 3e+19, exceeds the largest float32"
            in reasons(dead("activation", [], large))[0]
        )
        assert "The largest float16 number is 6.55e+04." in reasons(dead("activation", [], small, dtype="float16"))[0]

    def test_a_vanishing_gradient_comes_first(self) -> None:
        layers = [
            *stream(0, 1, 1, 1),
            *stream(100, 1, 1, 1.5),
            *signal(0, "grad_norm", 1, 1.5),
            *signal(100, "grad_norm", 1e-9, 1e-2),
        ]
        record = replace(PLATEAU, traces=replace(PLATEAU.traces, layers=layers))
        why, loss, change = reasons(record)
        assert why.startswith(
            "why: The gradient vanishes on its way back: at step 100, the gradient norm fell 1e+07-fold"
        )
        assert "At no evaluation had the network learned 3 % of the learnable gap" in loss
        assert "During training, the gradient norm per layer fell 1e+09-fold at layer 1" in change

    def test_a_gradient_that_underflows_is_followed_to_its_last_nonzero_layer(self) -> None:
        layers = [*stream(0, 1, 1), *stream(100, 1, 1), *signal(100, "grad_norm", 0, 1e-30, 1e-2)]
        why = reasons(replace(PLATEAU, traces=replace(PLATEAU.traces, layers=layers)))[0]
        assert "fell 1e+28-fold from layer 3 to layer 2, from 0.01 to 1e-30, and was 0 after that" in why

    def test_what_a_network_had_learned_and_lost_is_told(self) -> None:
        rows = list(PLATEAU.traces.curve)
        rows[50] = replace(rows[50], val_loss=2.785)
        (why, *_) = reasons(replace(PLATEAU, traces=Traces(curve=rows)))
        assert why == "why: The network had learned 50 % of the learnable gap after step 50, and lost it again."

    def test_the_losses_of_an_unsettled_run(self) -> None:
        record = records.end(RunConfig(depth=3), "unsettled")
        assert record is not None
        assert "was 150 before training and 100 at the end; the lowest was 100, after step 100" in reasons(record)[0]

    def test_what_the_record_lacks_is_not_known(self) -> None:
        for record in (PLATEAU, SICK):
            assert (
                "Not known: how activations and gradients changed"
                in reasons(replace(record, traces=Traces(curve=record.traces.curve)))[-1]
            )
        assert "Not known: how the loss changed" in reasons(replace(PLATEAU, traces=None))[0]

    def test_steady_signals_are_told(self) -> None:
        layers = [*stream(0, 1, 2), *stream(100, 1, 3)]
        assert (
            "changed less than 10-fold" in reasons(replace(PLATEAU, traces=replace(PLATEAU.traces, layers=layers)))[-1]
        )

    def test_a_run_that_learned_or_failed_has_no_reasons(self) -> None:
        assert reasons(NEAR) == reasons(records.failed(RunConfig())) == []

    def test_a_long_record_is_searched_in_parts(self) -> None:
        layers = [row for step in range(3000) for row in stream(step, 1, 1.01**step)]
        (change,) = [
            line
            for line in reasons(replace(PLATEAU, traces=replace(PLATEAU.traces, layers=layers)))
            if "During" in line
        ]
        assert "fastest between" in change

    def test_the_story_has_them(self) -> None:
        assert [line for line in story(SICK, []) if line.startswith("  why: The loss became NaN")]


class TestNearest:
    def test_learned_and_differs_in_the_fewest_keys_then_by_the_least(self) -> None:
        assert nearest(SICK, [FAR, NEAR, NEARER, NEARER_STILL]) is NEARER_STILL
        assert nearest(SICK, [NEARER, FAR]) is NEARER
        assert nearest(SICK, [PLATEAU, SICK, records.failed(RunConfig())]) is None
        assert "  nearest run that learned: lr 0.009 instead of 0.01" in story(SICK, [FAR, NEARER_STILL])


def with_curve(record: RunRecord, rows: list[CurveRow]) -> RunRecord:
    return replace(record, traces=Traces(curve=rows))


class TestRepro:
    def test_identical_curves_nan_included(self) -> None:
        assert any(row.train_loss is not None and math.isnan(row.train_loss) for row in SICK.traces.curve)
        assert repro.identical(SICK, replace(SICK))
        assert repro.verdict(SICK, SICK)[0] == "bit-identical over 12 steps"

    def test_the_first_difference_is_named_with_both_losses(self) -> None:
        rows = list(NEAR.traces.curve)
        rows[7] = replace(rows[7], train_loss=math.nextafter(rows[7].train_loss, 9))
        other = with_curve(NEAR, rows)
        found = repro.compare(NEAR.traces.curve, other.traces.curve)
        assert found.first_difference == 7
        assert repro.verdict(NEAR, other)[0].startswith("first difference at step 7: stored train_loss ")
        short = with_curve(NEAR, list(NEAR.traces.curve)[:9])
        assert repro.verdict(NEAR, short)[0] == "first difference at step 9: one curve does not have this step"
        assert not repro.identical(NEAR, other)

    def test_a_curve_that_ends_early_differs(self) -> None:
        other = with_curve(NEAR, list(NEAR.traces.curve)[:50])
        assert repro.compare(NEAR.traces.curve, other.traces.curve).first_difference == 50

    def test_a_stored_run_without_a_curve_cannot_be_compared(self) -> None:
        for stored in (with_curve(NEAR, []), replace(NEAR, traces=None), records.failed(NEAR.config)):
            with pytest.raises(UserError, match="no curve is stored"):
                repro.check(stored)
        repro.check(NEAR)

    def test_environments_are_compared(self) -> None:
        other = replace(NEAR, environment={**NEAR.environment, "torch": "2.14.0"})
        assert "  torch: 2.13.0 stored, 2.14.0 now" in repro.verdict(NEAR, other)

    def test_a_run_that_fails_now_is_told(self) -> None:
        failed = records.failed(NEAR.config)
        assert repro.verdict(NEAR, failed) == ["the run could not be repeated: failed: Traceback: it broke"]
        assert not repro.identical(NEAR, failed)
