"""Summarize a sweep in a few sentences: outcomes, the axis that explains them best, and the best cell."""

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
"""The conclusion shows only the best and the worst value of an axis with more values than this."""

VERBS = {
    Outcome.PLATEAU: "ended on a plateau",
    Outcome.UNSETTLED: "ended unsettled",
    Outcome.DIVERGED: "diverged",
    Outcome.NONFINITE: "became non-finite",
}

Share = tuple[Value, int, int]
"""A value of an axis, and how many of its done runs learned: (value, learned, done)."""


def conclusion(plan: Plan, runs: pd.DataFrame) -> str:
    """Return the outcomes, the axis that explains them best, and the best cell, in sentences."""
    all_cells = cells(plan, runs)
    rows: list[Run] = list({run["run_id"]: run for cell in all_cells for run in cell.runs}.values())
    done = [run for run in rows if run["status"] == Status.DONE]
    if not rows:
        return "No runs."
    unfinished = _unfinished(rows)
    if not done:
        return f"No run is done yet: {unfinished}."
    sentences = [_outcomes_text(done) + (f"; {unfinished}." if unfinished else ".")]
    sentences.append(_explanation(plan, all_cells, done))
    top = best(all_cells)
    sentences.append(_best_text(top, all_cells, plan.labels) if top else "No cell has a finite median loss.")
    return " ".join(sentence for sentence in sentences if sentence)


def _outcomes_text(done: Sequence[Run]) -> str:
    outcomes = [run["outcome"] for run in done]
    parts = [
        f"{outcomes.count(outcome)} {verb}{_falling(outcome, done)}"
        for outcome, verb in VERBS.items()
        if outcome in outcomes
    ]
    steps = range_text(run["step"] for run in done if run["outcome"] == Outcome.NONFINITE)
    if steps:
        parts[-1] += f" (step {steps})"
    little = sum(run["outcome"] == Outcome.LEARNED and run["learned_fraction"] < MUCH for run in done)
    learned = f"{outcomes.count(Outcome.LEARNED)} of {plural(len(done), 'finished run')} learned"
    learned += f", {little} of them less than half of the learnable gap" if little else ""
    return f"{learned}; {listed(parts)}" if parts else learned


def _falling(outcome: Outcome, done: Sequence[Run]) -> str:
    """Return how many runs with this outcome had a loss that was still falling: more steps might help them."""
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


def _explanation(plan: Plan, cells: Sequence[Cell], done: Sequence[Run]) -> str:
    """Return which axis separates the runs that learned from the others; empty if all runs have one outcome."""
    if len({run["outcome"] for run in done}) < 2:
        return ""
    axes = [axis for axis in (*plan.cell_axes, LABEL) if not _idle(axis, cells)]
    all_shares = {axis: _shares(axis, _partners(axis, cells)) for axis in axes}
    compared = {axis: shares for axis, shares in all_shares.items() if shares}
    if not compared:
        return ""
    widest = max(compared, key=lambda axis: (_differs_by_several(compared[axis]), _spread(compared[axis])))
    shares = compared.pop(widest)
    if _spread(shares) == 0:
        return "No axis changes how many runs learn." if len(compared) + 1 == len(all_shares) else ""
    if len(shares) > LISTED_VALUES:
        shares = [max(shares, key=_fraction_learned), min(shares, key=_fraction_learned)]
    labels = plan.labels
    texts = [f"{learned}/{count} at {labels.text(widest, value)}" for value, learned, count in shares]
    name = "the label" if widest == LABEL else widest
    sentence = f"Outcomes depend most on {name} (runs that learned, all else equal: {', '.join(texts)})."
    not_learned = sum(run["outcome"] != Outcome.LEARNED for run in done)
    return " ".join([sentence, *_common_values(compared, cells, not_learned, labels)])


def _common_values(
    compared: dict[str, list[Share]], cells: Sequence[Cell], not_learned: int, labels: Labels
) -> list[str]:
    """Return a sentence for each axis of which a single value has all runs that did not learn, if there are several.

    The value must do worse among partner cells too: otherwise it may have been run only where nothing learns.
    """
    sentences = []
    for axis, partners in compared.items():
        worse = [value for value, learned, count in _shares(axis, cells) if learned < count]
        worse_partners = [value for value, learned, count in partners if learned < count]
        if len(worse) == 1 and worse_partners == worse and len(partners) > 1 and not_learned > 1:
            runs = "Both runs" if not_learned == 2 else f"All {not_learned} runs"
            sentences.append(f"{runs} that did not learn have {axis} {labels.text(axis, worse[0])}.")
    return sentences


def _partners(axis: str, cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells that have a done run and, for every other value of the axis, a partner equal in all other keys.

    Cells that share a run with a partner are left out: that run cannot distinguish the values.
    """
    with_result = [cell for cell in cells if cell.done]
    count = len({cell.values[axis] for cell in with_result})
    groups = _groups(axis, with_result)
    return [cell for group in groups if len(group) == count and not shared(group) for cell in group]


def _idle(axis: str, cells: Sequence[Cell]) -> bool:
    """Return whether the axis has several values, but cells that differ only in it always consist of the same runs."""
    groups = [group for group in _groups(axis, cells) if len(group) > 1]
    return bool(groups) and all(len(twins(group)) == 1 for group in groups)


def _groups(axis: str, cells: Sequence[Cell]) -> list[list[Cell]]:
    """Group the cells that differ only in this axis."""
    groups: dict[tuple[Value, ...], list[Cell]] = {}
    for cell in cells:
        groups.setdefault(tuple(value for key, value in cell.values.items() if key != axis), []).append(cell)
    return list(groups.values())


def _shares(axis: str, cells: Sequence[Cell]) -> list[Share]:
    """Return the share of each value that has done runs, counting each run once."""
    by_value: dict[Value, dict[str, bool]] = {}
    for cell in cells:
        learned = by_value.setdefault(cell.values[axis], {})
        learned |= {run["run_id"]: run["outcome"] == Outcome.LEARNED for run in cell.done}
    return [(value, sum(learned.values()), len(learned)) for value, learned in by_value.items() if learned]


def _fraction_learned(share: Share) -> float:
    return share[1] / share[2]


def _spread(shares: Sequence[Share]) -> float:
    fractions = [_fraction_learned(share) for share in shares]
    return max(fractions) - min(fractions)


def _differs_by_several(shares: Sequence[Share]) -> bool:
    """Return whether the values differ by more than one run: a single run may differ by chance."""
    counts = [count - learned for _, learned, count in shares]
    return max(counts) - min(counts) > 1


def _best_text(cell: Cell, cells: Sequence[Cell], labels: Labels) -> str:
    run, count = cell.done[0], len(cell.done)
    same_runs = next(group for group in twins(cells) if cell in group)
    name = joined_text([member.values for member in same_runs], labels)
    loss = f"final loss {loss_text(cell.median)}"
    loss = loss if count == 1 else f"median {loss} over {plural(count, 'run')}"
    loss = f"{name}, {loss}" if name else loss
    if len({(run["floor"], run["guess"]) for cell in cells for run in cell.done}) > 1:
        loss += f", {100 * fraction(cell):.0f} % of the learnable gap"
    return f"Best cell: {loss} (entropy floor {loss_text(run['floor'])}, unigram loss {loss_text(run['guess'])})."
