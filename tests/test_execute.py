"""What every executor promises."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial

import pytest
from workloads import BAD, one_bad, paced, quick, tiny

from normexp.execute.events import Event, Finished, Progress, Started
from normexp.execute.executors import EXECUTORS, Executor
from normexp.record import Outcome, RunRecord, Status
from normexp.run import RunConfig


@pytest.fixture(params=EXECUTORS)
def execute(request: pytest.FixtureRequest) -> Executor:
    return EXECUTORS[request.param]


def records(events: Iterator[Event]) -> list[RunRecord]:
    return [event.record for event in events if isinstance(event, Finished)]


def seed_of(event: Event) -> int:
    return event.record.config.seed if isinstance(event, Finished) else event.config.seed


def test_nothing_to_do(execute: Executor) -> None:
    assert list(execute([], jobs=2)) == []


@pytest.mark.parametrize("jobs", [1, 3])
def test_each_run_is_started_then_makes_progress_then_is_finished_once(execute: Executor, jobs: int) -> None:
    events = list(execute([tiny(seed) for seed in range(5)], jobs=jobs, work=quick))
    for seed in range(5):
        assert [type(event) for event in events if seed_of(event) == seed] == [Started, Progress, Finished]
    assert [seed_of(event) for event in events if isinstance(event, Started)] == list(range(5))


def test_records_and_progress_carry_the_config(execute: Executor) -> None:
    config = tiny(3, lr=0.5)
    started, progress, finished = execute([config], jobs=1, work=quick)
    assert isinstance(started, Started)
    assert isinstance(progress, Progress)
    assert isinstance(finished, Finished)
    assert started.config == progress.config == finished.record.config == config
    assert (progress.step, progress.loss) == (1, 1.0)


def test_an_exception_costs_its_own_run(execute: Executor) -> None:
    done = records(execute([tiny(seed) for seed in range(4)], jobs=2, work=partial(one_bad, "raise")))
    assert sorted((record.config.seed, record.status) for record in done) == [
        (0, Status.DONE),
        (BAD, Status.FAILED),
        (2, Status.DONE),
        (3, Status.DONE),
    ]
    (bad,) = (record for record in done if record.config.seed == BAD)
    assert bad.error == "RuntimeError: first line"
    assert bad.log is not None
    assert "Traceback" in bad.log
    assert "second line" in bad.log
    assert "in _raise" in bad.log


def test_configs_are_taken_when_their_turn_comes(execute: Executor) -> None:
    taken: list[int] = []

    def configs() -> Iterator[RunConfig]:
        for seed in range(1000):
            taken.append(seed)
            yield tiny(seed)

    events = execute(configs(), jobs=2, work=quick)
    finished = 0
    while finished < 3:
        finished += isinstance(next(events), Finished)
        assert len(taken) <= finished + 2
    events.close()
    assert len(taken) <= 5


def test_a_fault_of_the_configs_is_the_callers(execute: Executor) -> None:
    def configs() -> Iterator[RunConfig]:
        yield tiny(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(execute(configs(), jobs=2, work=quick))


def test_progress_comes_while_the_run_works_and_not_too_often(execute: Executor) -> None:
    seen: list[tuple[float, Event]] = []
    for event in execute([tiny(0, steps=100)], jobs=1, work=paced):
        seen.append((time.monotonic(), event))
    *_, (end, finished) = seen
    times = [when for when, event in seen if isinstance(event, Progress)]
    assert isinstance(finished, Finished)
    assert end - times[0] > 0.8
    assert 3 <= len(times) <= 1 + (end - times[0]) / 0.2


def test_closing_midway_ends_the_runs(execute: Executor) -> None:
    events = execute([tiny(seed, steps=1000) for seed in range(3)], jobs=2, work=paced)
    while not isinstance(next(events), Progress):
        pass
    start = time.monotonic()
    events.close()
    assert time.monotonic() - start < 3
    assert list(events) == []


def test_a_real_run_is_measured_and_judged(execute: Executor) -> None:
    config = tiny(0, eval_every=2)
    (record,) = records(execute([config], jobs=1))
    assert record.status is Status.DONE, record.log
    assert record.result is not None
    assert record.verdict is not None
    assert record.traces is not None
    assert record.result.steps_done == 5
    assert [step for step, _ in record.traces.evaluations] == [0, 2, 4, 5]
    assert record.verdict.outcome in Outcome
    assert record.environment["torch_threads"] == 1
    assert {"python", "torch", "numpy", "normexp", "platform", "cpu_capability"} <= record.environment.keys()
    parts = sum(record.seconds[part] for part in ("data", "steps", "eval", "replay"))
    assert 0 < parts <= record.seconds["total"]


def test_a_run_that_dies_is_done(execute: Executor) -> None:
    (record,) = records(execute([tiny(0, norm="none", optimizer="sgd", lr=1e30, steps=5)], jobs=1))
    assert record.status is Status.DONE, record.log
    assert record.verdict is not None
    assert record.verdict.outcome is Outcome.NONFINITE


def test_losses_are_the_same_to_the_bit_wherever_and_in_whatever_order() -> None:
    configs = [tiny(seed, width=32, hidden=64, depth=2, steps=20, eval_every=5) for seed in range(3)]
    ways = [
        records(EXECUTORS["inline"](configs, jobs=1)),
        records(EXECUTORS["processes"](configs, jobs=1)),
        records(EXECUTORS["processes"](configs[::-1], jobs=2)),
    ]
    curves = [{record.run_id: record.traces.curve for record in way if record.traces} for way in ways]
    assert len(curves[0]) == 3
    assert all(math.isfinite(row.train_loss) for row in curves[0][configs[0].run_id] if row.train_loss is not None)
    assert curves[0] == curves[1] == curves[2]
    assert len({tuple(curve) for curve in curves[0].values()}) == 3


def test_a_training_loads_neither_the_compiler_nor_sympy() -> None:
    code = """
import sys
from normexp.run import RunConfig
from normexp.training.train import train
for norm in ("ln", "rms", "bn"):
    train(RunConfig(depth=1, width=8, heads=2, norm=norm, steps=2))
print(sorted({"torch._dynamo", "sympy"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
