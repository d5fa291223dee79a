"""Two runs compared: configs, outcomes, losses, and the first step at which their curves part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType

from normexp.curves import first_difference
from normexp.labels import loss_text
from normexp.record import CurveRow, RunRecord
from normexp.run import KEYS
from normexp.views.compare import differing
from normexp.views.comparison import Differing
from normexp.views.console import Encodable, Uncut
from normexp.views.pivot import TextTable

LOSSES = ("train_loss", "val_loss")
MEASURED = ("train_loss", "grad_norm", "val_loss")
"""What is compared of a curve: the rate follows from the config."""
APART = 0.01
"""Relative difference of losses that shows in a figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """Where two curves part: the first `step` of any difference, in `column`, and the first with losses 1 % `apart`.

    None: they agree over all the `steps` that both have.
    """

    steps: int
    step: int | None
    column: str = ""
    a: float | None = None
    b: float | None = None
    apart: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Two runs, with what differs of their keys and environments; `curves` is None where either stored no curve."""

    a: RunRecord
    b: RunRecord
    keys: tuple[Differing, ...]
    environment: tuple[Differing, ...]
    curves: Parting | None

    @property
    def difference(self) -> float | None:
        """Final validation loss of b less that of a, in nats; None where one has none, or the tasks are two."""
        one, other = self.a.result, self.b.result
        if one is None or other is None or one.final_val_loss is None or other.final_val_loss is None:
            return None
        return other.final_val_loss - one.final_val_loss if one.losses.agrees(other.losses) else None


def compare(a: RunRecord, b: RunRecord) -> RunComparison:
    """Compare two records with their traces."""
    keys = ((name, getattr(a.config, name), getattr(b.config, name)) for name in KEYS)
    names = dict.fromkeys([*a.made_with, *b.made_with])
    made = ((name, a.made_with.get(name, "unknown"), b.made_with.get(name, "unknown")) for name in names)
    return RunComparison(
        a=a,
        b=b,
        keys=tuple(Differing(name=name, a=(ours,), b=(theirs,)) for name, ours, theirs in keys if ours != theirs),
        environment=tuple(
            Differing(name=name, a=(ours,), b=(theirs,)) for name, ours, theirs in made if ours != theirs
        ),
        curves=parting(a.traces.curve, b.traces.curve) if a.traces and b.traces else None,
    )


def parting(a: Sequence[CurveRow], b: Sequence[CurveRow]) -> Parting | None:
    """Where two curves part, to the last bit; what one of them did not measure is left out. None without a curve."""
    rows = list(zip(a, b, strict=False))
    if not rows:
        return None
    steps = rows[-1][0].step
    found = first_difference(a, b, columns=MEASURED, one_lacks=MEASURED, other_lacks=MEASURED)
    if found is None or not found.column:
        return Parting(steps=steps, step=None)
    apart = next((one.step for one, other in rows if _losses_apart(one, other)), None)
    return Parting(steps=steps, step=found.step, column=found.column, a=found.one, b=found.other, apart=apart)


def _losses_apart(one: CurveRow, other: CurveRow) -> bool:
    pairs = [(getattr(one, column), getattr(other, column)) for column in LOSSES]
    known = [pair for pair in pairs if None not in pair and repr(pair[0]) != repr(pair[1])]
    return any(not math.isclose(*pair, rel_tol=APART) for pair in known)


def comparison(found: RunComparison) -> RenderableType:
    """What differs between two runs, for people."""
    tables = [
        differing("Keys that differ", "key", found.keys),
        _results(found),
        differing("Made with", "", found.environment),
    ]
    title = f"{found.a.run_id} (A) against {found.b.run_id} (B)"
    shown = [Uncut(table) for table in tables if table.rows]
    return Group(Encodable(title, "bold"), *shown, *map(Encodable, sentences(found)))


def _results(found: RunComparison) -> TextTable:
    rows = [
        ("result", found.a.result_word, found.b.result_word),
        ("rule", *(record.verdict.rule if record.verdict else record.error or "" for record in (found.a, found.b))),
        *((name, *map(_loss_text, pair)) for name, pair in _losses(found).items()),
    ]
    return TextTable(title="Results; losses in nats", header=("", "A", "B"), rows=tuple(rows))


def _loss_text(loss: float | None) -> str:
    """Nothing for a loss that was not measured; `nan` for one that was NaN."""
    return "" if loss is None else "nan" if math.isnan(loss) else loss_text(loss)


def _losses(found: RunComparison) -> dict[str, tuple[float | None, float | None]]:
    one, other = _numbers(found.a), _numbers(found.b)
    return {name: (one.get(name), other.get(name)) for name in dict.fromkeys([*one, *other])}


def _numbers(record: RunRecord) -> dict[str, float]:
    result = record.result
    if result is None:
        return {}
    losses = {
        "loss before training": result.init_val_loss,
        "best loss": result.best_val_loss,
        "final loss": result.final_val_loss,
    }
    known = {name: loss for name, loss in losses.items() if loss is not None}
    if result.final_val_loss is not None:
        known["learned fraction"] = result.learned_fraction
    return known


def sentences(found: RunComparison) -> list[str]:
    """The difference of the final losses, and where the curves part."""
    told = ["Both have the same keys."] if not found.keys else []
    if found.difference is not None and math.isfinite(found.difference):
        told.append(f"Final loss, B - A: {'+' * (found.difference > 0)}{loss_text(found.difference)}.")
    curves = found.curves
    if curves is None:
        return [*told, "One of them has no curve to compare."]
    if curves.step is None:
        return [*told, f"Their curves are the same, bit by bit, over {curves.steps} steps."]
    apart = f"are 1 % apart at step {curves.apart}" if curves.apart is not None else "stay within 1 %"
    values = f"{curves.column} {curves.a!r} and {curves.b!r}"
    return [*told, f"Their curves part at step {curves.step} ({values}); their losses {apart}."]


def as_data(found: RunComparison) -> dict[str, Any]:
    """What `normexp compare --json` prints of two runs."""
    curves = found.curves
    return {
        "schema": 1,
        "kind": "runs",
        "a": _run_data(found.a),
        "b": _run_data(found.b),
        "keys": [{"key": item.name, "a": item.a[0], "b": item.b[0]} for item in found.keys],
        "difference": {"final_val_loss": found.difference},
        "curves": curves
        and {
            "steps": curves.steps,
            "first_difference": curves.step,
            "column": curves.column,
            "a": curves.a,
            "b": curves.b,
            "losses_1_percent_apart": curves.apart,
        },
        "environment": [{"name": item.name, "a": item.a[0], "b": item.b[0]} for item in found.environment],
    }


def _run_data(record: RunRecord) -> dict[str, Any]:
    result, verdict = record.result, record.verdict
    data: dict[str, Any] = {
        "run_id": record.run_id,
        "status": record.status,
        "outcome": verdict and verdict.outcome,
        "rule": verdict and verdict.rule,
        "error": record.error,
    }
    for name in ("steps_done", "init_val_loss", "best_val_loss", "final_val_loss", "death"):
        data[name] = getattr(result, name, None)
    return data
