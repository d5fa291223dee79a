"""Whether two folders tell the same: of a sweep, and of a run. Where, when and how a run was made is no difference."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from normexp.curves import first_difference
from normexp.labels import plural
from normexp.plan import Plan
from normexp.record import COMPARED, CurveRow, Result, RunRecord, SignalRow
from normexp.results import manifest


def of_sweeps(one: Plan, other: Plan, names: tuple[str, str]) -> list[str]:
    """A line for each thing in which the sweeps of two plans, shards or not, are not the same. `names` are theirs."""
    one, other = one.whole or one, other.whole or other
    first, second = names
    runs, others = manifest.stored_form(one), manifest.stored_form(other)
    lines = manifest.differences(runs, others, (f"in {first}", f"in {second}"))
    apart = len(runs.keys() ^ others.keys())
    if apart and not lines:
        lines.append(f"  {plural(apart, 'run')} in one of them only")
    for name in ("name", "title", "axes"):
        if getattr(one, name) != getattr(other, name):
            lines.append(f"  {name}: {getattr(one, name)!r} in {first}, {getattr(other, name)!r} in {second}")
    if not lines:
        lines += [
            f"  {name}" for name in ("points", "pivot", "published") if getattr(one, name) != getattr(other, name)
        ]
    return lines


def of_runs(one: RunRecord, other: RunRecord) -> str:
    """What differs between the numbers of two records with traces of one run, empty where nothing does.

    Gradient norms are compared where both have them: a pack leaves them out.
    """
    told = list(_results(one.result, other.result)) or list(_traces(one, other))
    if not told:
        return ""
    made = [
        f"{name} {one.made_with.get(name, 'unknown')} and {other.made_with.get(name, 'unknown')}"
        for name in COMPARED
        if one.made_with.get(name) != other.made_with.get(name)
    ]
    return "; ".join([*told, *([f"made with {', '.join(made)}"] if made else [])])


def _results(one: Result | None, other: Result | None) -> Iterator[str]:
    if one is None or other is None:
        return
    for field in dataclasses.fields(Result):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if repr(mine) != repr(theirs):
            yield f"{field.name} {_short(mine)} and {_short(theirs)}"


def _short(value: object) -> str:
    if dataclasses.is_dataclass(value):
        return ", ".join(f"{field.name} {getattr(value, field.name)}" for field in dataclasses.fields(value))
    return str(value)


def _traces(one: RunRecord, other: RunRecord) -> Iterator[str]:
    if one.traces is None or other.traces is None:
        return
    told = _curves(one.traces.curve, other.traces.curve)
    if told:
        yield told
    for name in ("layers", "death_layers"):
        if _signal(getattr(one.traces, name)) != _signal(getattr(other.traces, name)):
            yield f"{name.replace('_', ' ')} differ"


def _curves(one: Sequence[CurveRow], other: Sequence[CurveRow]) -> str:
    found = first_difference(one, other, one_lacks=("grad_norm",), other_lacks=("grad_norm",))
    if found is None:
        return ""
    if not found.column:
        return f"curves of {len(one)} and {len(other)} rows"
    return f"{found.column} of step {found.step} {found.one!r} and {found.other!r}"


def _signal(rows: Sequence[SignalRow]) -> list[str]:
    return [repr(row) for row in rows if row.quantity != "grad_norm"]
