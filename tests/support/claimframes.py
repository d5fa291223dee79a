"""Frames of runs for the checks of claims: on which each holds, is refuted, is undecided, or has too few runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from normexp.analysis import frames
from normexp.config.run import RunConfig

NUMBERS = ("max_logit_at_init", "max_logit_after")
Cell = tuple[Mapping[str, Any], list[Any]]


def frame(cells: Iterable[Cell]) -> pd.DataFrame:
    """Return one row per run: the keys of the cell, and by seed a loss, `nan@step`, an outcome, or None for pending."""
    rows = []
    for values, ends in cells:
        keys = {key: value for key, value in values.items() if key not in NUMBERS}
        for seed, end in enumerate(ends):
            config = RunConfig(**keys, seed=seed)
            row: dict[str, Any] = {"setting": "", **config.to_dict(), "run_id": config.run_id, **told(end)}
            rows.append(row | {name: values.get(name) for name in NUMBERS})
    made = frames.frame(rows, ["setting", *frames.RUN_COLUMNS])
    for name in NUMBERS:
        made[name] = pd.Series([row[name] for row in rows], dtype="float64")
    return made


def told(end: Any) -> dict[str, Any]:
    if end is None:
        return {"status": "pending"}
    done = {"status": "done", "init_val_loss": 4.3, "learned_fraction": 0.5}
    if isinstance(end, str) and end.startswith("nan@"):
        return {**done, "outcome": "nonfinite", "step": int(end[4:]), "final_val_loss": math.inf}
    if isinstance(end, str):
        losses = {"plateau": 4.05, "unsettled": 90.0, "diverged": 1e6}
        return {**done, "outcome": end, "final_val_loss": losses[end], "learned_fraction": 0.0}
    return {**done, "outcome": "learned", "final_val_loss": end}


def norms(ln: list[Any], none: list[Any]) -> pd.DataFrame:
    return frame([({"norm": "ln"}, ln), ({"norm": "none"}, none)])


def rates(*ends: list[Any], position: str = "pre") -> pd.DataFrame:
    return frame([({"position": position, "lr": lr}, end) for lr, end in zip((1e-4, 1e-3, 1e-2), ends, strict=True)])


def both(pre: tuple[list[Any], ...], post: tuple[list[Any], ...]) -> pd.DataFrame:
    return pd.concat([rates(*pre), rates(*post, position="post")], ignore_index=True)


def deep(twelve: pd.DataFrame, thirty: pd.DataFrame) -> pd.DataFrame:
    """Return a grid at 12 layers and one at 30 in one frame."""
    twelve = twelve.assign(depth=12)
    thirty = thirty.assign(depth=30, run_id=thirty["run_id"] + "-deep")
    return pd.concat([twelve, thirty], ignore_index=True)


def logits(before: float, after: float, count: int = 3) -> pd.DataFrame:
    return frame([({"max_logit_at_init": before, "max_logit_after": after}, [2.0] * count)])


LN, NONE = {"norm": ("ln",)}, {"norm": ("none",)}
PRE, POST = {"position": ("pre",)}, {"position": ("post",)}
LOW, MID, HIGH = [2.5, 2.51, 2.49], [2.0, 2.01, 1.99], [2.2, 2.21, 2.19]
DEAD, STUCK = ["nan@20", "nan@30", "nan@40"], ["plateau"] * 3
GOOD = [2.0, 2.01, 1.99]

GOOD_6 = [2.0, 2.01, 1.99, 2.0, 2.01, 1.99]
DEAD_6 = [f"nan@{step}" for step in (20, 30, 40, 25, 35, 45)]
DEAD_12 = [f"nan@{step}" for step in range(20, 44, 2)]
"""The interval of the median step is that of the third and the tenth death: 24 to 38."""


def of_logits(*pairs: tuple[float, float]) -> pd.DataFrame:
    """Return one cell whose runs have these logits before and after training."""
    made = logits(0, 0, count=len(pairs))
    for column, numbers in zip(NUMBERS, zip(*pairs, strict=True), strict=True):
        made[column] = list(numbers)
    return made


@dataclass(frozen=True)
class Case:
    """Parameters of a check, and frames on which it holds, is refuted, is undecided, or has too few runs."""

    options: dict[str, Any]
    holds: list[pd.DataFrame]
    refuted: list[pd.DataFrame]
    undecided: list[pd.DataFrame]
    thin: list[pd.DataFrame]


CASES: dict[str, Case] = {
    "ends": Case(
        {"outcomes": ("plateau", "nonfinite"), "of_runs": NONE},
        [norms(GOOD, DEAD), norms(GOOD, ["plateau", "nan@3", "plateau"])],
        [norms(STUCK, GOOD), norms(GOOD, ["plateau", *[2.0] * 11])],
        [norms(GOOD, [*DEAD[:2], 2.0]), norms(GOOD, [DEAD[0], 2.0, 2.0])],
        [norms(GOOD, DEAD[:2]), norms(GOOD, [*DEAD[:2], None])],
    ),
    "rescues": Case(
        {"better": LN, "worse": NONE},
        [norms(GOOD, DEAD), norms(GOOD, ["plateau", "nan@3", "plateau"])],
        [norms(GOOD, GOOD), norms(DEAD, GOOD), norms(STUCK, DEAD)],
        [norms(GOOD, [*DEAD[:2], 2.0]), norms([*GOOD[:2], "plateau"], DEAD)],
        [norms(GOOD, DEAD[:2]), norms(GOOD[:2], DEAD)],
    ),
    "dies": Case(
        {"step": 30, "factor": 2.0, "of_runs": NONE},
        [norms(GOOD, DEAD_12), norms(GOOD, [2.0, 2.0, *["nan@30"] * 10])],
        [
            norms(GOOD, [f"nan@{step}" for step in range(1, 13)]),
            norms(DEAD_12, STUCK * 4),
            norms(GOOD, ["nan@61"] * 12),
        ],
        [norms(GOOD, DEAD), norms(GOOD, STUCK), norms(GOOD, [*[2.0] * 3, *["nan@30"] * 9]), norms(GOOD, DEAD_12[:11])],
        [norms(GOOD, DEAD[:2])],
    ),
    "dies_by": Case(
        {"step": 38, "of_runs": NONE},
        [norms(GOOD, DEAD_12)],
        [norms(GOOD, ["nan@39"] * 12), norms(GOOD, STUCK * 4)],
        [norms(GOOD, DEAD), norms(GOOD, [f"nan@{step}" for step in range(20, 68, 4)])],
        [norms(GOOD, DEAD[:2])],
    ),
    "dies_later": Case(
        {"early": LN, "late": NONE},
        [norms(DEAD_12, [f"nan@{step}" for step in range(21, 45, 2)])],
        [
            norms([f"nan@{step}" for step in range(21, 45, 2)], DEAD_12),
            norms(DEAD_12, GOOD * 4),
            norms(GOOD * 4, DEAD_12),
        ],
        [
            norms(DEAD_12, DEAD_12),
            norms(DEAD, ["nan@21", "nan@31", "nan@41"]),
            norms(DEAD_12, [2.0] * 6 + ["nan@90"] * 6),
        ],
        [norms(DEAD, DEAD[:2])],
    ),
    "lower": Case(
        {"better": LN, "worse": NONE, "by": 0.1},
        [norms(GOOD, [2.3, 2.31, 2.29]), norms(GOOD_6, DEAD_6), norms(GOOD, ["unsettled"] * 3)],
        [norms([2.3, 2.31, 2.29], GOOD), norms(DEAD_6, GOOD_6)],
        [
            norms(GOOD, [2.05, 2.06, 2.04]),
            norms(GOOD, [1.9, 4.0, 1.95]),
            norms(GOOD, DEAD),
            norms(GOOD, [*GOOD[:2], "plateau"]),
            norms(STUCK, DEAD),
            norms(DEAD, DEAD),
            norms([*DEAD[:2], 2.0], DEAD),
        ],
        [norms(GOOD, [2.3, 2.31]), norms([None, *GOOD[:2]], [2.3, 2.31, 2.29])],
    ),
    "close": Case(
        {"one": LN, "other": NONE, "within": 0.03},
        [norms(GOOD, [2.02, 2.03, 2.01])],
        [norms(GOOD, [2.05, 2.06, 2.04]), norms([2.05, 2.06, 2.04], GOOD), norms(GOOD_6, DEAD_6)],
        [norms(STUCK, STUCK), norms(DEAD, DEAD), norms(GOOD, DEAD), norms(GOOD, [2.0, 2.06, 1.98])],
        [norms(GOOD, [2.0, 2.01])],
    ),
    "no_worse": Case(
        {"one": LN, "other": NONE, "within": 0.03},
        [
            norms(GOOD, [1.98, 1.99, 1.97]),
            norms(GOOD, [2.3, 2.31, 2.29]),
            norms(GOOD_6, [*DEAD_6[:5], 2.01]),
            norms(GOOD_6, [2.1, *STUCK, *STUCK[:2]]),
        ],
        [norms([2.05, 2.06, 2.04], GOOD), norms(STUCK, GOOD), norms(DEAD_6, GOOD_6)],
        [
            norms(STUCK, STUCK),
            norms(GOOD, STUCK),
            norms(GOOD_6, DEAD_6),
            norms(DEAD, DEAD),
            norms(STUCK, DEAD),
            norms(GOOD, DEAD),
            norms(GOOD, [2.0, 1.94, 2.02]),
        ],
        [norms(GOOD, [2.0, 2.01])],
    ),
    "near": Case(
        {"value": 2.0, "within": 0.03, "of_runs": LN},
        [norms(GOOD, DEAD)],
        [norms([2.1, 2.11, 2.09], GOOD), norms(DEAD, GOOD)],
        [norms([2.1, 2.1, 2.0], GOOD), norms([2.0, 2.0, "plateau"], GOOD)],
        [norms(GOOD[:2], DEAD)],
    ),
    "above": Case(
        {"value": 9.0, "measure": "max_logit_after"},
        [logits(2, 9.1), of_logits((1, 10), (1, 10.5), (1, 11))],
        [logits(9.1, 8.9)],
        [of_logits((1, 9.1), (1, 12), (1, 20)), of_logits((1, 8), (1, 12), (1, 12))],
        [logits(2, 9.1, count=2), logits(2, math.nan)],
    ),
    "below": Case(
        {"value": 9.0, "measure": "max_logit_after"},
        [logits(9.1, 8.9), of_logits((1, 8), (1, 7.8), (1, 7.6))],
        [logits(2, 9.1)],
        [of_logits((1, 8.9), (1, 4), (1, 2)), of_logits((1, 8), (1, 12), (1, 12))],
        [logits(2, 8.9, count=2), logits(2, math.nan)],
    ),
    "changes": Case(
        {"before": "max_logit_at_init", "after": "max_logit_after", "towards": "rising", "times": 2.0},
        [logits(2, 4.1), logits(0, 1e-9), logits(-0.1, 0.1), of_logits((1, 3), (2, 7), (4, 13))],
        [logits(4.1, 2), logits(0, 0), logits(0, -1), logits(-0.1, -0.3)],
        [logits(2, 3.9), of_logits((1, 3), (2, 6), (4, 3)), of_logits((1, 2.1), (1, 2.2), (1, 30))],
        [logits(2, 5, count=2), logits(math.nan, 5)],
    ),
    "trend": Case(
        {"axis": "lr", "towards": "falling"},
        [rates([2.5, 2.51, 2.49], HIGH, MID)],
        [rates(MID, HIGH, LOW), rates(LOW, MID, HIGH)],
        [
            rates([2.0, 2.5, 1.6], [1.99, 2.4, 1.5], [1.98, 1.7, 1.9]),
            rates(LOW, MID, [2.02, 2.0, 1.99]),
        ],
        [rates(LOW, HIGH, MID[:2])],
    ),
    "best_at": Case(
        {"axis": "lr", "values": (1e-3,)},
        [rates(LOW, MID, DEAD), rates(LOW, MID, HIGH)],
        [rates(MID, LOW, HIGH), rates(MID, STUCK, DEAD)],
        [
            rates(STUCK, [*STUCK[:2], 4.0], STUCK),
            rates(DEAD, DEAD, DEAD),
            rates(LOW, MID, [2.0, 2.02, 1.97]),
            rates(LOW, MID, [2.2, 2.21, "nan@20"]),
        ],
        [rates(LOW, MID, HIGH[:1])],
    ),
    "best_higher": Case(
        {"axis": "lr", "higher": PRE, "lower": POST},
        [both((LOW, HIGH, MID), (LOW, MID, DEAD))],
        [both((LOW, MID, HIGH), (LOW, MID, DEAD))],
        [both((LOW, HIGH, MID), (STUCK, DEAD, DEAD)), both((LOW, [1.9, 2.4, 2.4], MID), (LOW, MID, DEAD))],
        [both((LOW, HIGH, MID), (LOW, MID, [])).iloc[:-1]],
    ),
    "learns_at": Case(
        {"axis": "lr", "values": (1e-4, 1e-3)},
        [rates(LOW, MID, DEAD), rates(LOW, MID, [2.0, 2.0, "plateau"])],
        [rates(LOW, MID, HIGH), rates(LOW, STUCK, DEAD)],
        [rates(LOW, [2.0, 2.0, "plateau"], DEAD)],
        [rates(LOW, MID, DEAD[:2])],
    ),
    "sensitivity": Case(
        {"axis": "lr", "better": PRE, "worse": POST},
        [both((HIGH, MID, HIGH), (LOW, MID, DEAD))],
        [both((LOW, MID, DEAD), (HIGH, MID, HIGH))],
        [both((STUCK, STUCK, STUCK), (LOW, MID, DEAD)), both((HIGH, MID, HIGH), (LOW, MID, [*DEAD[:2], 2.0]))],
        [both((HIGH, MID, HIGH), (LOW, MID, DEAD[:2]))],
    ),
    "widens": Case(
        {"axis": "lr", "better": PRE, "worse": POST, "narrow": {"depth": (12,)}, "wide": {"depth": (30,)}},
        [deep(both((LOW, MID, HIGH), (LOW, MID, DEAD)), both((LOW, MID, HIGH), (STUCK, DEAD, DEAD)))],
        [deep(both((LOW, MID, HIGH), (STUCK, DEAD, DEAD)), both((LOW, MID, HIGH), (LOW, MID, DEAD)))],
        [
            deep(both((LOW, MID, HIGH), (LOW, MID, DEAD)), both((LOW, MID, HIGH), (LOW, MID, DEAD))),
            deep(both((LOW, MID, HIGH), (LOW, MID, HIGH)), both((STUCK, DEAD, DEAD), (STUCK, DEAD, DEAD))),
        ],
        [deep(both((LOW, MID, HIGH), (LOW, MID, DEAD)), both((LOW, MID, HIGH), (STUCK, DEAD, DEAD[:2])))],
    ),
    "equally_sensitive": Case(
        {"axis": "lr", "one": PRE, "other": POST, "within": 0.1},
        [both((HIGH, MID, HIGH), (HIGH, MID, HIGH)), both((LOW, MID, HIGH), (HIGH, MID, LOW))],
        [both((HIGH, MID, HIGH), (LOW, MID, DEAD))],
        [both((STUCK, STUCK, STUCK), (STUCK, STUCK, STUCK))],
        [both((HIGH, MID, HIGH), (HIGH, MID, HIGH[:2]))],
    ),
}
