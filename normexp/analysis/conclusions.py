"""A sweep in a few sentences: what happened, what made the difference, where the loss is lowest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from normexp.analysis.cells import Cell, Run, best, cells, fraction, shared, twins
from normexp.analysis.tables import joined_text
from normexp.config.labels import Labels, listed, loss_text, plural, range_text
from normexp.config.plan import LABEL, Plan
from normexp.records.outcome import MUCH
from normexp.records.record import FAILED, Outcome, Status
from normexp.schemes.network_config import Value

if TYPE_CHECKING:
    import pandas as pd

LISTED_VALUES = 6
"""An axis with more values is told by its best and its worst in the conclusion."""

VERBS = {
    Outcome.PLATEAU: "ended on a plateau",
    Outcome.UNSETTLED: "never settled",
    Outcome.DIVERGED: "diverged",
    Outcome.NONFINITE: "died non-finite",
}


def conclusion(plan: Plan, runs: pd.DataFrame) -> str:
    """What happened, which axis made the difference, and where the loss is lowest: derived from outcomes alone."""
    found = cells(plan, runs)
    rows: list[Run] = list({run["run_id"]: run for cell in found for run in cell.runs}.values())
    done = [run for run in rows if run["status"] == Status.DONE]
    if not rows:
        return "No runs."
    unfinished = _unfinished(rows)
    if not done:
        return f"No run has come to a result yet: {unfinished}."
    sentences = [_happened(done) + (f"; {unfinished}." if unfinished else ".")]
    sentences.append(_difference(plan, found, done))
    top = best(found)
    sentences.append(_best(top, found, plan.labels) if top else "No cell has a finite median loss.")
    return " ".join(sentence for sentence in sentences if sentence)


def _happened(done: Sequence[Run]) -> str:
    outcomes = [run["outcome"] for run in done]
    parts = [
        f"{outcomes.count(outcome)} {verb}{_falling(outcome, done)}"
        for outcome, verb in VERBS.items()
        if outcome in outcomes
    ]
    deaths = range_text(run["step"] for run in done if run["outcome"] == Outcome.NONFINITE)
    if deaths:
        parts[-1] += f" (step {deaths})"
    little = sum(run["outcome"] == Outcome.LEARNED and run["learned_fraction"] < MUCH for run in done)
    learned = f"{outcomes.count(Outcome.LEARNED)} of {plural(len(done), 'finished run')} learned"
    learned += f", {little} of them less than half of what there is" if little else ""
    return f"{learned}; {listed(parts)}" if parts else learned


def _falling(outcome: Outcome, done: Sequence[Run]) -> str:
    """How many of those that ended so might have gone on to something better."""
    trends = [run["trend"] for run in done if run["outcome"] == outcome]
    falling = trends.count("falling")
    if not falling:
        return ""
    return " (still falling)" if len(trends) == 1 else f" ({falling} of them still falling)"


def _unfinished(rows: Sequence[Run]) -> str:
    failed = sum(run["status"] in FAILED for run in rows)
    pending = sum(run["status"] != Status.DONE for run in rows) - failed
    parts = [f"{count} {word}" for count, word in ((failed, "failed"), (pending, "pending")) if count]
    return listed(parts) if parts else ""


def _difference(plan: Plan, found: Sequence[Cell], done: Sequence[Run]) -> str:
    if len({run["outcome"] for run in done}) < 2:
        return ""
    axes = [axis for axis in (*plan.cell_axes, LABEL) if not _idle(axis, found)]
    shares = {axis: _shares(axis, _partners(axis, found)) for axis in axes}
    compared = {axis: told for axis, told in shares.items() if told}
    if not compared:
        return ""
    widest = max(compared, key=lambda axis: (_by_several(compared[axis]), _spread(compared[axis])))
    told = compared.pop(widest)
    if _spread(told) == 0:
        return "No axis changes how many learn." if len(compared) + 1 == len(shares) else ""
    if len(told) > LISTED_VALUES:
        told = [max(told, key=_share), min(told, key=_share)]
    labels = plan.labels
    texts = [f"{labels.text(widest, value)} {learned} of {count}" for value, learned, count in told]
    named = "the label" if widest == LABEL else widest
    separated = f"What separates them most is {named} (learned, all else equal: {', '.join(texts)})."
    stuck = sum(run["outcome"] != Outcome.LEARNED for run in done)
    return " ".join([separated, *_shared_fate(compared, found, stuck, labels)])


def _shared_fate(
    compared: dict[str, list[tuple[Value, int, int]]], found: Sequence[Cell], stuck: int, labels: Labels
) -> list[str]:
    """A sentence for each axis of which one value has all of the runs that did not learn, if they are several.

    The value must do worse among partners too, or it may only have been tried where nothing learns.
    """
    told = []
    for axis, partners in compared.items():
        losers = [value for value, learned, count in _shares(axis, found) if learned < count]
        worse = [value for value, learned, count in partners if learned < count]
        if len(losers) == 1 and worse == losers and len(partners) > 1 and stuck > 1:
            them = "Both" if stuck == 2 else f"All {stuck}"
            told.append(f"{them} that did not learn have {axis} {labels.text(axis, losers[0])}.")
    return told


def _partners(axis: str, found: Sequence[Cell]) -> list[Cell]:
    """The cells with a result that have a partner, equal but for this axis, in every value of the axis.

    Those that share a run with a partner are left out: it cannot tell one value from the other.
    """
    with_result = [cell for cell in found if cell.done]
    count = len({cell.values[axis] for cell in with_result})
    groups = _groups(axis, with_result)
    return [cell for group in groups if len(group) == count and not shared(group) for cell in group]


def _idle(axis: str, found: Sequence[Cell]) -> bool:
    """Whether the axis has several values, and all that differ in nothing else are answered by the same runs."""
    groups = [group for group in _groups(axis, found) if len(group) > 1]
    return bool(groups) and all(len(twins(group)) == 1 for group in groups)


def _groups(axis: str, found: Sequence[Cell]) -> list[list[Cell]]:
    """The cells, those together that differ in nothing but this axis."""
    groups: dict[tuple[Value, ...], list[Cell]] = {}
    for cell in found:
        groups.setdefault(tuple(value for key, value in cell.values.items() if key != axis), []).append(cell)
    return list(groups.values())


def _shares(axis: str, found: Sequence[Cell]) -> list[tuple[Value, int, int]]:
    """(value, learned, done) over the distinct done runs of each value."""
    by_value: dict[Value, dict[str, bool]] = {}
    for cell in found:
        outcomes = by_value.setdefault(cell.values[axis], {})
        outcomes |= {run["run_id"]: run["outcome"] == Outcome.LEARNED for run in cell.done}
    return [(value, sum(told.values()), len(told)) for value, told in by_value.items() if told]


def _share(told: tuple[Value, int, int]) -> float:
    return told[1] / told[2]


def _spread(told: Sequence[tuple[Value, int, int]]) -> float:
    shares = [_share(value) for value in told]
    return max(shares) - min(shares)


def _by_several(told: Sequence[tuple[Value, int, int]]) -> bool:
    """Whether the values differ by more than one run: chance alone may make one."""
    losses = [count - learned for _, learned, count in told]
    return max(losses) - min(losses) > 1


def _best(cell: Cell, found: Sequence[Cell], labels: Labels) -> str:
    run, count = cell.done[0], len(cell.done)
    alike = next(group for group in twins(found) if cell in group)
    name = joined_text([one.values for one in alike], labels) or "the one cell"
    references = f"floor {loss_text(run['floor'])}, guess {loss_text(run['guess'])}"
    if len({(run["floor"], run["guess"]) for cell in found for run in cell.done}) > 1:
        return (
            f"The most is learned with {name}: {fraction(cell):.0%} of what there is, "
            f"loss {loss_text(cell.median)} ({references})."
        )
    what = "final loss" if count == 1 else f"median final loss of {plural(count, 'run')}"
    return f"Lowest {what}: {loss_text(cell.median)} with {name} ({references})."
