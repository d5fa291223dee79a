"""Checks of how runs end: outcomes, the steps at which they died, where along a key they learn."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from normexp.claims import findings as of
from normexp.claims.claim import NOTHING, Finding, Selection
from normexp.claims.wording import side_names
from normexp.keys import Value
from normexp.labels import listed, plural, range_text
from normexp.record import Outcome

if TYPE_CHECKING:
    import pandas as pd


def ends(frame: pd.DataFrame, needed: int, *, outcomes: Sequence[str], of_runs: Selection = NOTHING) -> Finding:
    """Every selected run ends in one of these outcomes."""
    found = of.cells(frame, of_runs, needed)
    runs = of.runs_of(found)
    hits = sum(run["outcome"] in outcomes for run in runs)
    return of.finding(
        found,
        hits == len(runs),
        f"{hits} of {len(runs)}: {of.counts_text(found)}",
        f"{hits} of {plural(len(runs), 'run')} ended {' or '.join(outcomes)}: {of.all_outcomes(found)}",
    )


def rescues(frame: pd.DataFrame, needed: int, *, better: Selection, worse: Selection) -> Finding:
    """Every run of one side learns, and no run of the other."""
    saved, lost = (of.cells(frame, side, needed) for side in (better, worse))
    learned = [sum(map(of.learned, side)) for side in (saved, lost)]
    names = side_names((better, worse), of.labels_of(frame))
    parts = [f"{name}: {of.counts_text(side)}" for name, side in zip(names, (saved, lost), strict=True)]
    told = "; ".join(parts)
    holds = of.all_learned(saved) and learned[1] == 0
    sentence = f"all must learn with {names[0]} and none with {names[1]}: {of.all_outcomes([*saved, *lost])}"
    return of.finding([*saved, *lost], holds, told, sentence)


def dies(frame: pd.DataFrame, needed: int, *, step: int, factor: float, of_runs: Selection = NOTHING) -> Finding:
    """Every run becomes non-finite, at a median step within this factor of the stated one."""
    found = of.cells(frame, of_runs, needed)
    runs = of.runs_of(found)
    steps = [int(run["step"]) for run in runs if run["outcome"] == Outcome.NONFINITE]
    near = bool(steps) and step / factor <= statistics.median(steps) <= step * factor
    told = f"{len(steps)} of {len(runs)} died" + (f" @{range_text(steps)}" if steps else "")
    sentence = f"{told}; needed are all, near step {step} within a factor of {factor:g}: {of.all_outcomes(found)}"
    return of.finding(found, near and len(steps) == len(runs), told, sentence)


def dies_by(frame: pd.DataFrame, needed: int, *, step: int, of_runs: Selection = NOTHING) -> Finding:
    """Every run becomes non-finite, at this step or before."""
    found = of.cells(frame, of_runs, needed)
    runs = of.runs_of(found)
    steps = [int(run["step"]) for run in runs if run["outcome"] == Outcome.NONFINITE]
    soon = sum(at <= step for at in steps)
    later = [at for at in steps if at > step]
    told = f"{soon} of {len(runs)} died by step {step}" + (f" ({len(later)} @{range_text(later)})" if later else "")
    return of.finding(found, soon == len(runs), told, f"{told}: {of.all_outcomes(found)}")


def dies_later(frame: pd.DataFrame, needed: int, *, early: Selection, late: Selection) -> Finding:
    """Both sides become non-finite in every run, the late one at a later step with every seed."""
    one, other = of.pair(frame, early, late, needed)
    dead = all(run["outcome"] == Outcome.NONFINITE for cell in (one, other) for run in cell.runs.values())
    shared = sorted(set(one.runs) & set(other.runs))
    holds = dead and all(other.runs[seed]["step"] > one.runs[seed]["step"] for seed in shared)
    told = of.all_outcomes([one, other])
    return of.finding([one, other], holds, told, told)


def learns_at(
    frame: pd.DataFrame, needed: int, *, axis: str, values: Sequence[Value], of_runs: Selection = NOTHING
) -> Finding:
    """Along a key, every run learns at exactly these values: elsewhere at least one seed does not."""
    found, labels = of.cells(frame, of_runs, needed, axis), of.labels_of(frame)
    learning = [cell.values[axis] for cell in found if of.learned(cell) == len(cell.runs)]
    told = listed([labels.text(axis, value) for value in learning]) if learning else "none"
    shares = ", ".join(f"{labels.text(axis, c.values[axis])} {of.learned(c)} of {len(c.runs)}" for c in found)
    return of.finding(found, set(learning) == set(values), f"learns at {axis} {told}", f"learned by {axis}: {shares}")
