"""The explanation of one run, and its reproduction."""

import io
import math
from dataclasses import replace
from pathlib import Path

import pytest
import records
from rich.console import Console

from normexp.analysis.explain import nearest, story
from normexp.commands.explain import command as explain
from normexp.config.run import RunConfig
from normexp.errors import UserError
from normexp.records.record import CurveRow, RunRecord, Traces
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
