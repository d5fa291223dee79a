"""Compare a stored run with the same run made now, bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from normexp.analysis.differences import first_difference
from normexp.errors import UserError
from normexp.records.record import CurveRow, RunRecord

ONE_HAS_NO_ROW = "one curve does not have this step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result of comparing two curves over `steps` steps.

    `first_difference` is the first step that differs, or None. At that step, the curve's `column` has the values
    `stored` and `now`. With `norms_lacking`, gradient norms were not compared, because they are not stored.
    """

    steps: int
    first_difference: int | None
    column: str = ""
    stored: float | None = None
    now: float | None = None
    norms_lacking: bool = False


def check(stored: RunRecord) -> None:
    """Raise UserError if the stored run has no curve to compare with."""
    if stored.traces is None or not stored.traces.curve:
        raise UserError(f"{stored.run_id}: cannot compare: no curve is stored (status: {stored.status})")


def compare(stored: Sequence[CurveRow], now: Sequence[CurveRow]) -> Comparison:
    """Compare row by row and bit by bit (NaN equals NaN). Gradient norms that are not stored are skipped."""
    difference = first_difference(stored, now, one_lacks=("grad_norm",))
    steps = len(now) - 1 if difference is None else difference.step
    compared = [(old, new) for old, new in zip(stored, now, strict=False) if new.step <= steps]
    lacking = any(old.grad_norm is None and new.grad_norm is not None for old, new in compared)
    if difference is None:
        return Comparison(steps=steps, first_difference=None, norms_lacking=lacking)
    return Comparison(
        steps=steps,
        first_difference=difference.step,
        column=difference.column,
        stored=difference.one,
        now=difference.other,
        norms_lacking=lacking,
    )


def verdict(stored: RunRecord, now: RunRecord) -> list[str]:
    """Return the comparison as lines of text, with the versions and threads of both runs."""
    if stored.traces is None or now.traces is None or now.result is None:
        return [f"the run could not be repeated: {now.status}: {now.error}"]
    compared = compare(stored.traces.curve, now.traces.curve)
    if compared.first_difference is None:
        lines = [f"bit-identical over {compared.steps} steps"]
    else:
        values = f"stored {compared.column} {compared.stored!r}, now {compared.now!r}"
        lines = [
            f"first difference at step {compared.first_difference}: {values if compared.column else ONE_HAS_NO_ROW}"
        ]
    if compared.norms_lacking:
        lines[0] += "; gradient norms were not compared, because packed runs do not store them"
    names = sorted({*stored.made_with, *now.made_with})
    for name in names:
        old, new = stored.made_with.get(name, "unknown"), now.made_with.get(name, "unknown")
        lines.append(f"  {name}: {old}" if old == new else f"  {name}: {old} stored, {new} now")
    if stored.numerics != now.numerics:
        lines.append(f"  numerics: {stored.numerics} stored, {now.numerics} now: losses are expected to differ")
    return lines


def identical(stored: RunRecord, now: RunRecord) -> bool:
    """Return whether all rows of both curves agree."""
    if stored.traces is None or now.traces is None:
        return False
    return compare(stored.traces.curve, now.traces.curve).first_difference is None
