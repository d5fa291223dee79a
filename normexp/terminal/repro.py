"""Is a stored run bit-identical to the same run made now? If not, from which step on, and what differs around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from normexp.analysis.differences import first_difference
from normexp.errors import UserError
from normexp.records.record import CurveRow, RunRecord

ONE_HAS_NO_ROW = "one curve has no such step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`first_difference` is a step, None where all agree; there, `column` of the curve is `stored` and `now`.

    `norms_lacking`: gradient norms that are not stored were not compared.
    """

    steps: int
    first_difference: int | None
    column: str = ""
    stored: float | None = None
    now: float | None = None
    norms_lacking: bool = False


def check(stored: RunRecord) -> None:
    """Raise UserError where there is nothing to compare with, which is no difference."""
    if stored.traces is None or not stored.traces.curve:
        raise UserError(f"{stored.run_id}: {stored.status}, and no curve is stored to compare with")


def compare(stored: Sequence[CurveRow], now: Sequence[CurveRow]) -> Comparison:
    """Row by row, bit by bit (NaN equals NaN), but for gradient norms that are not stored, as in unpacked runs."""
    found = first_difference(stored, now, one_lacks=("grad_norm",))
    steps = len(now) - 1 if found is None else found.step
    compared = [pair for pair in zip(stored, now, strict=False) if pair[1].step <= steps]
    lacking = any(one.grad_norm is None and other.grad_norm is not None for one, other in compared)
    if found is None:
        return Comparison(steps=steps, first_difference=None, norms_lacking=lacking)
    return Comparison(
        steps=steps,
        first_difference=found.step,
        column=found.column,
        stored=found.one,
        now=found.other,
        norms_lacking=lacking,
    )


def verdict(stored: RunRecord, now: RunRecord) -> list[str]:
    """The comparison in lines, with the versions and threads of both."""
    if stored.traces is None or now.traces is None or now.result is None:
        return [f"the run could not be made again: {now.status}: {now.error}"]
    found = compare(stored.traces.curve, now.traces.curve)
    if found.first_difference is None:
        lines = [f"bit-identical over {found.steps} steps"]
    else:
        values = f"stored {found.column} {found.stored!r}, now {found.now!r}" if found.column else ONE_HAS_NO_ROW
        lines = [f"differs first at step {found.first_difference}: {values}"]
    if found.norms_lacking:
        lines[0] += "; gradient norms are not stored (packing leaves them out) and were not compared"
    names = sorted({*stored.made_with, *now.made_with})
    for name in names:
        then, today = stored.made_with.get(name, "unknown"), now.made_with.get(name, "unknown")
        lines.append(f"  {name}: {then}" if then == today else f"  {name}: {then} stored, {today} now")
    if stored.numerics != now.numerics:
        lines.append(f"  numerics: {stored.numerics} stored, {now.numerics} now: other losses are to be expected")
    return lines


def identical(stored: RunRecord, now: RunRecord) -> bool:
    """Whether every row of both curves agrees."""
    if stored.traces is None or now.traces is None:
        return False
    return compare(stored.traces.curve, now.traces.curve).first_difference is None
