"""Optuna's grid sampler: python with_optuna.py GRID.json RESULTS. Two processes share a study in a journal file.

Its documentation advises processes where the GIL would make threads (n_jobs) wait. The first trials of a study are the
points of the grid in order, so that as many trials as points train each point once.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from functools import partial
from pathlib import Path
from typing import Any

import optuna
from network import train
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

Asked = dict[str, dict[str, Any]]


def objective(asked: Asked, results: Path, trial: optuna.Trial) -> float:
    """A trial, in a folder of its own."""
    point = {key: trial.suggest_categorical(key, values) for key, values in asked["grid"].items()}
    return train(asked["base"] | point, results / f"trial-{trial.number}", lambda step, loss: trial.report(loss, step))


def optimize(asked: Asked, results: Path, trials: int) -> None:
    """One process's share of the trials."""
    study = optuna.create_study(
        study_name="sweep",
        storage=JournalStorage(JournalFileBackend(str(results / "journal.log"))),
        sampler=optuna.samplers.GridSampler(asked["grid"]),
        load_if_exists=True,
    )
    study.optimize(partial(objective, asked, results), n_trials=trials)


def main() -> None:
    """All points of the grid."""
    asked, results = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    points = 1
    for values in asked["grid"].values():
        points *= len(values)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(partial(optimize, asked, results), [points - points // 2, points // 2], chunksize=1)


if __name__ == "__main__":
    main()
