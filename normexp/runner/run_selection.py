"""Decide which runs of a plan are executed, copied from other sweeps, or left as they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from normexp.config.plan import Plan, selected
from normexp.config.run import RunConfig
from normexp.records.record import RunRecord, Status
from normexp.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a sweep is executed. No option changes results, except that `autograd` changes their last digits.

    Runs of sweeps under `out` and under the folders `beside` it are copied. `jobs` is the number of parallel runs; None
    means one per available processor, or as many as the workers of a remote scheduler take.
    """

    out: Path
    jobs: int | None = None
    executor: str = "processes"
    scheduler: str | None = None
    timeout_seconds: float | None = None
    force: bool = False
    retry_failed: bool = False
    rerun_outdated: bool = False
    fail_fast: bool = False
    save_weights: bool = False
    autograd: bool = False
    watched: bool = False
    only: tuple[str, ...] = ()
    beside: tuple[Path, ...] = ()
    argv: tuple[str, ...] = ()

    @classmethod
    def of(cls, parameters: Mapping[str, Any], **more: Any) -> Options:
        """Return options from the parameters of a command or function that have the names of fields; ignore the rest.

        `only` and `argv` may be any sequence, or None for the default, and `only` a single text.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        values = {name: value for name, value in parameters.items() if name in names} | more
        only = values.get("only") or ()
        texts = {"only": (only,) if isinstance(only, str) else tuple(only), "argv": tuple(values.get("argv") or ())}
        return cls(**values | texts | {"out": Path(values["out"])})


@dataclass
class Work:
    """The runs of a plan: `todo` to execute, `reusable` from other sweeps, `skipped` because of `only`.

    `done` and `failed` (also killed or timed out) count stored runs that are left as they are. `without_weights` counts
    runs of `todo` that are done, but lack weights. `warnings` names damaged copies.
    """

    todo: list[RunConfig] = field(default_factory=list)
    reusable: dict[str, tuple[RunConfig, Store]] = field(default_factory=dict)
    done: int = 0
    failed: int = 0
    skipped: int = 0
    without_weights: int = 0
    warnings: list[str] = field(default_factory=list)


def work_of(plan: Plan, store: Store, records: Mapping[str, RunRecord], options: Options) -> Work:
    """Decide for each run of the plan. Raises UserError if `only` matches nothing."""
    wanted = selected(plan, options.only)
    work = Work()
    for run_id, config in plan.configs.items():
        record = records.get(run_id)
        again = record is not None and _again(record, options)
        lacking = record is not None and run_id in wanted and _lacks_weights(record, store, options)
        if record is not None and not again and not lacking:
            work.done += record.status is Status.DONE
            work.failed += record.status is not Status.DONE
        elif run_id not in wanted:
            work.skipped += 1
        else:
            other = None
            outdated = record is not None and record.outdated and options.rerun_outdated
            if not (options.force or options.autograd) and (record is None or lacking or outdated):
                other = _elsewhere(store, run_id, options)
            if other is None:
                work.todo.append(config)
                work.without_weights += lacking and not again
            else:
                work.reusable[run_id] = config, other
    return work


def _elsewhere(store: Store, run_id: str, options: Options) -> Store | None:
    roots = (options.out, *options.beside)
    stores = (store.find_elsewhere(root, run_id, weights=options.save_weights) for root in roots)
    return next((other for other in stores if other is not None), None)


def _again(record: RunRecord, options: Options) -> bool:
    failed = record.status is not Status.DONE
    other_path = not failed and options.autograd and not record.by_autograd
    return (
        options.force or other_path or (failed and options.retry_failed) or (record.outdated and options.rerun_outdated)
    )


def _lacks_weights(record: RunRecord, store: Store, options: Options) -> bool:
    return options.save_weights and record.status is Status.DONE and not store.has_weights(record.run_id)
