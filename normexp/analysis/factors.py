"""Find which factor of a crossed sweep decides how its runs end: varying one key while holding all others fixed.

A combination is one value for every key but the factor. In each combination the runs of two values of the factor are
compared: the factor changes the result there if the event happens to more than half of the seeds with one value, and
to half of them or fewer with the other. Matched pairs also have the same seed. Pairs share runs with each other, so
their counts are a description, not a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import combinations
from typing import Any

from normexp.analysis.cells import Run
from normexp.analysis.comparison import Pair, Side, pairing
from normexp.analysis.tables import TextTable
from normexp.config.labels import Labels
from normexp.config.plan import LABEL, SEED
from normexp.errors import UserError
from normexp.records.record import Outcome, Status
from normexp.schemes.network_config import Value


class Happened(StrEnum):
    """An event of a run, as `--event` names it."""

    LEARNED = "learned"
    FINITE = "finite"


VERBS = {Happened.LEARNED: "learns", Happened.FINITE: "stays finite"}
VERBS_PLURAL = {Happened.LEARNED: "learned", Happened.FINITE: "stayed finite"}
EVENTS: Mapping[Happened, Callable[[Run], bool]] = {
    Happened.LEARNED: lambda run: run["outcome"] == Outcome.LEARNED,
    Happened.FINITE: lambda run: run["outcome"] != Outcome.NONFINITE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """The runs of two values of a factor that agree on all other keys.

    `a` and `b` count the runs in which the event happened; `only_a` and `only_b` the pairs in which it happened to one.
    """

    values: Mapping[str, Value]
    seeds: int
    a: int
    b: int
    only_a: int
    only_b: int

    @property
    def changes(self) -> bool:
        """Whether the event happens to the majority of seeds with exactly one of the two values."""
        return (2 * self.a > self.seeds) != (2 * self.b > self.seeds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a factor does when it goes from the value `a` to `b`, in each combination of the other keys."""

    key: str
    a: Value
    b: Value
    combinations: tuple[Combination, ...]

    @property
    def changed(self) -> list[Combination]:
        """The combinations in which the factor changes the result."""
        return [each for each in self.combinations if each.changes]

    def total(self, name: str) -> int:
        """Return the sum of a count over all combinations."""
        return sum(getattr(each, name) for each in self.combinations)

    @property
    def needed(self) -> dict[str, list[Value]]:
        """For each other key, the values with which the factor changes the result, if these are not all values."""
        every, changed = self.combinations, self.changed
        keys = list(every[0].values) if changed else []
        values = {key: list(dict.fromkeys(each.values[key] for each in changed)) for key in keys}
        return {key: values[key] for key in keys if len(values[key]) < len({each.values[key] for each in every})}


def effects(side: Side, event: Happened) -> list[Effect]:
    """Return the effect of each pair of values of each key of a sweep, in the order of its axes.

    Runs that are not done are left out. Raises UserError if no key has two values whose runs can be paired.
    """
    keys = [key for key in (LABEL, *side.axes) if key != SEED and len(side.values(key)) > 1]
    found = [_effect(side, key, a, b, event) for key in keys for a, b in combinations(side.values(key), 2)]
    kept = [effect for effect in found if effect is not None]
    if not kept:
        raise UserError(
            f"{side.name}: no key has two values whose runs agree on all other keys: cross the keys in `grid`"
        )
    return kept


def _effect(side: Side, key: str, a: Value, b: Value, event: Happened) -> Effect | None:
    matched = pairing(_half(side, key, a), _half(side, key, b))
    if matched.replaced != (key,):  # another key changes with it
        return None
    by_values: dict[tuple[Value, ...], list[Pair]] = {}
    names: tuple[str, ...] = ()
    for pair in matched.pairs:
        both = [side.rows[run_id] for run_id in pair.run_ids]
        if pair.run_ids[0] == pair.run_ids[1] or any(run["status"] != Status.DONE for run in both):
            continue
        where = {name: value for name, value in pair.where.items() if name != SEED and len(side.values(name)) > 1}
        names = tuple(where)
        by_values.setdefault(tuple(where.values()), []).append(pair)
    counted = tuple(
        _combination(side, dict(zip(names, values, strict=True)), found, event) for values, found in by_values.items()
    )
    return Effect(key=key, a=a, b=b, combinations=counted) if counted else None


def _half(side: Side, key: str, value: Value) -> Side:
    return replace(side, points=tuple(point for point in side.points if point.value_of(key) == value))


def _combination(side: Side, values: Mapping[str, Value], pairs: Sequence[Pair], event: Happened) -> Combination:
    happened = [tuple(EVENTS[event](side.rows[run_id]) for run_id in pair.run_ids) for pair in pairs]
    return Combination(
        values=values,
        seeds=len(pairs),
        a=sum(a for a, _ in happened),
        b=sum(b for _, b in happened),
        only_a=sum(a and not b for a, b in happened),
        only_b=sum(b and not a for a, b in happened),
    )


def table(side: Side, event: Happened) -> TextTable:
    """Return the effects of a sweep as a table, with a row per key and pair of its values."""
    every, labels = effects(side, event), Labels(side.values)
    rows = tuple(
        (
            each.key,
            f"{labels.text(each.key, each.a)} → {labels.text(each.key, each.b)}",
            *(f"{each.total(name)}/{each.total('seeds')}" for name in ("a", "b")),
            *(str(each.total(name)) for name in ("only_a", "only_b")),
            f"{len(each.changed)} of {len(each.combinations)}",
            _needed_text(each, labels),
        )
        for each in every
    )
    return TextTable(
        title=f"What decides whether a run {VERBS[event]}: one key changed at a time",
        header=(
            "key",
            "from → to",
            "before",
            "after",
            "only before",
            "only after",
            "changes the result in",
            "only with",
        ),
        rows=rows,
        note=f"before, after: runs that {VERBS_PLURAL[event]}, of all pairs. A key changes the result in a combination "
        "of the other keys if more than half of the seeds end one way with one value, and not with the other.",
    )


def _needed_text(effect: Effect, labels: Labels) -> str:
    return ", ".join(
        f"{key} {' or '.join(labels.text(key, value) for value in values)}" for key, values in effect.needed.items()
    )


def as_data(side: Side, event: Happened) -> dict[str, Any]:
    """Return the effects as JSON data, with every combination."""
    every = [asdict(each) | {"changed": len(each.changed)} for each in effects(side, event)]
    return {"event": str(event), "effects": every}
