"""The behaviour that all executors share."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial

import pytest
from clusters import Cluster, cluster
from workloads import BAD, ENDLESS, one_bad, paced, quick, tiny

from normexp.config.run import RunConfig
from normexp.errors import UserError
from normexp.execution.events import Event, Finished, Progress, Started
from normexp.execution.executors import EXECUTORS, Executor, chosen
from normexp.execution.signals import Stopped, stoppable
from normexp.execution.worker import Job, Work
from normexp.records.record import Outcome, RunRecord, Status

EACH = [pytest.param(name, marks=[pytest.mark.slow] if name == "dask" else []) for name in EXECUTORS]
IN_PROCESSES = [each for each in EACH if each.values != ("inline",)]
"""Executors that survive the loss of a run."""


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), workers=2) as running:
        running.wait_for_workers(2)
        yield running


@pytest.fixture
def execute(request: pytest.FixtureRequest) -> Executor:
    name = request.param
    if name == "dask":
        return chosen(name, request.getfixturevalue("workers").address)
    return EXECUTORS[name]


every = pytest.mark.parametrize("execute", EACH, indirect=True)
every_in_processes = pytest.mark.parametrize("execute", IN_PROCESSES, indirect=True)


def records(events: Iterator[Event]) -> list[RunRecord]:
    return [event.record for event in events if isinstance(event, Finished)]


def by_seed(events: Iterator[Event]) -> dict[int, RunRecord]:
    return {record.config.seed: record for record in records(events)}


def seed_of(event: Event) -> int:
    return event.record.config.seed if isinstance(event, Finished) else event.config.seed


@every
def test_nothing_to_do(execute: Executor) -> None:
    assert list(execute([], jobs=2, work=Job())) == []


@every
@pytest.mark.parametrize("jobs", [1, 3])
def test_each_run_is_started_then_makes_progress_then_is_finished_once(execute: Executor, jobs: int) -> None:
    events = list(execute([tiny(seed) for seed in range(5)], jobs=jobs, work=quick))
    for seed in range(5):
        assert [type(event) for event in events if seed_of(event) == seed] == [Started, Progress, Finished]
    assert [seed_of(event) for event in events if isinstance(event, Started)] == list(range(5))


@every
def test_records_and_progress_carry_the_config(execute: Executor) -> None:
    config = tiny(3, lr=0.5)
    started, progress, finished = execute([config], jobs=1, work=quick)
    assert isinstance(started, Started)
    assert isinstance(progress, Progress)
    assert isinstance(finished, Finished)
    assert started.config == progress.config == finished.record.config == config
    assert (progress.step, progress.loss) == (1, 1.0)


@every
def test_an_exception_affects_only_its_run(execute: Executor) -> None:
    done = by_seed(execute([tiny(seed) for seed in range(4)], jobs=2, work=partial(one_bad, "raise")))
    assert {seed: record.status for seed, record in done.items() if seed != BAD} == dict.fromkeys(
        (0, 2, 3), Status.DONE
    )
    bad = done[BAD]
    assert bad.status is Status.FAILED
    assert bad.error == "RuntimeError: first line"
    assert bad.log is not None
    assert "Traceback" in bad.log
    assert "second line" in bad.log
    assert "in _raise" in bad.log


@every_in_processes
@pytest.mark.parametrize(
    ("fault", "status", "error"),
    [
        ("sigkill", Status.KILLED, "killed by signal 9 (SIGKILL), perhaps out of memory"),
        ("segfault", Status.KILLED, "killed by signal 11 (SIGSEGV)"),
        ("exit 0", Status.FAILED, "ended by itself with exit code 0"),
        ("exit 3", Status.FAILED, "ended by itself with exit code 3"),
        ("sys.exit", Status.FAILED, "ended by itself with exit code 4"),
        ("garble", Status.FAILED, "its process sent what is no message of this run: b'not a message"),
    ],
)
def test_a_lost_process_affects_only_its_run(execute: Executor, fault: str, status: Status, error: str) -> None:
    done = by_seed(execute([tiny(seed) for seed in range(6)], jobs=2, work=partial(one_bad, fault)))
    assert len(done) == 6
    bad = done.pop(BAD)
    assert bad.status is status
    assert bad.error is not None
    assert bad.error.startswith(error)
    assert all(record.status is Status.DONE for record in done.values())
    if fault == "segfault":
        assert "Segmentation fault" in (bad.log or "")
        assert "in one_bad" in (bad.log or "")


@every_in_processes
def test_a_timed_out_run_is_killed_with_its_stack_in_the_log(execute: Executor) -> None:
    configs = [tiny(seed) for seed in range(4)]
    start = time.monotonic()
    done = by_seed(execute(configs, jobs=2, timeout_seconds=1.0, work=partial(one_bad, "hang")))
    assert time.monotonic() - start > 1
    bad = done.pop(BAD)
    assert (bad.status, bad.error) == (Status.TIMEOUT, "not done after 1 seconds")
    assert "in one_bad" in (bad.log or "")
    assert [record.status for record in done.values()] == [Status.DONE] * 3


def test_a_timeout_needs_a_process() -> None:
    with pytest.raises(UserError, match=r"^timeout: "):
        list(EXECUTORS["inline"]([tiny(0)], jobs=1, timeout_seconds=1.0, work=Job()))


@every
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


@every
def test_exceptions_of_the_configs_reach_the_caller(execute: Executor) -> None:
    def configs() -> Iterator[RunConfig]:
        yield tiny(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(execute(configs(), jobs=2, work=quick))


@every
def test_progress_comes_while_the_run_works_and_not_too_often(execute: Executor) -> None:
    seen: list[tuple[float, Event]] = []
    for event in execute([tiny(0, steps=100)], jobs=1, work=paced):
        seen.append((time.monotonic(), event))
    *_, (end, finished) = seen
    times = [when for when, event in seen if isinstance(event, Progress)]
    assert isinstance(finished, Finished)
    assert end - times[0] > 0.8
    assert 3 <= len(times) <= 1 + (end - times[0]) / 0.2


@every
def test_closing_midway_ends_the_runs(execute: Executor) -> None:
    """The runs would take hours."""
    events = execute([tiny(seed, steps=ENDLESS) for seed in range(3)], jobs=2, work=paced)
    while not isinstance(next(events), Progress):
        pass
    events.close()
    assert list(events) == []


@every
def test_an_interrupt_reaches_the_caller_while_it_waits(execute: Executor) -> None:
    """The run would take hours."""
    with stoppable():
        events = execute([tiny(0, steps=ENDLESS)], jobs=1, work=paced)
        while not isinstance(next(events), Progress):
            pass
        interrupt = subprocess.Popen(["bash", "-c", f"sleep 0.5; kill -INT {os.getpid()}"])
        with pytest.raises(Stopped, match="SIGINT"):
            for _ in events:
                pass
        interrupt.wait()
    assert list(events) == []


@every
def test_a_real_run_is_measured_and_judged(execute: Executor) -> None:
    config = tiny(0, eval_every=2)
    (record,) = records(execute([config], jobs=1, work=Job()))
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


@every
def test_a_nonfinite_run_is_done(execute: Executor) -> None:
    (record,) = records(execute([tiny(0, norm="none", optimizer="sgd", lr=1e30, steps=5)], jobs=1, work=Job()))
    assert record.status is Status.DONE, record.log
    assert record.verdict is not None
    assert record.verdict.outcome is Outcome.NONFINITE


def fingerprint(record: RunRecord) -> str:
    """Return the results of training as text, in which equal numbers are bit-identical, including NaN."""
    traces = record.traces
    assert traces is not None
    return repr((record.result, record.verdict, list(traces.curve), list(traces.layers), list(traces.death_layers)))


@every_in_processes
def test_losses_are_bit_identical_in_any_order_and_on_any_executor(execute: Executor) -> None:
    configs = [tiny(seed, width=32, hidden=64, depth=2, steps=20, eval_every=5) for seed in range(3)]
    configs.append(tiny(0, norm="none", optimizer="sgd", lr=1e30, steps=5))
    ways = [
        records(EXECUTORS["inline"](configs, jobs=1, work=Job())),
        records(execute(configs, jobs=1, work=Job())),
        records(execute(configs[::-1], jobs=2, work=Job())),
    ]
    curves = [{record.run_id: fingerprint(record) for record in way} for way in ways]
    first = ways[0][0].traces
    assert first is not None
    assert all(math.isfinite(row.train_loss) for row in first.curve if row.train_loss is not None)
    assert "nan" in curves[0][configs[-1].run_id] or "inf" in curves[0][configs[-1].run_id]
    assert curves[0] == curves[1] == curves[2]
    assert len(set(curves[0].values())) == 4


@every_in_processes
def test_work_that_a_worker_cannot_import_is_refused(execute: Executor) -> None:
    work: Work = lambda config, report: quick(config, report)  # noqa: E731
    with pytest.raises(ValueError, match="define it at the top of a module"):
        list(execute([tiny(0)], jobs=1, work=work))
    with pytest.raises(ValueError, match="jobs must be at least 1"):
        list(execute([tiny(0)], jobs=0, work=Job()))


def test_a_training_loads_neither_the_compiler_nor_sympy() -> None:
    code = """
import sys
from normexp.config.run import RunConfig
from normexp.training.loop import train
for norm in ("ln", "rms", "bn"):
    train(RunConfig(depth=1, width=8, heads=2, norm=norm, steps=2))
print(sorted({"torch._dynamo", "sympy"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
