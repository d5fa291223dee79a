"""Estimates of a sweep's time from a sample, on simulated clocks and with real workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import records

from normexp.config.run import RunConfig
from normexp.execution.events import Event, Finished, Started
from normexp.execution.pool.launch import LauncherError
from normexp.execution.worker import Job
from normexp.records.record import RunRecord
from normexp.runner import sampling, time_left
from normexp.runner.run_selection import Options
from normexp.runner.sweep import check_tasks

TODO = [
    RunConfig(norm=norm, depth=depth, steps=500, seed=seed)
    for norm in ("ln", "rms")
    for depth in (2, 12)
    for seed in (0, 1, 2)
]


class Machine:
    """An executor on a simulated clock: seconds to start its workers, then beside each run, and its pace."""

    def __init__(self, start: float, beside: float, pace: float) -> None:
        self.now, self.start, self.beside, self.pace = 100.0, start, beside, pace
        self.made: list[RunConfig] = []
        self.jobs: list[int] = []

    def clock(self) -> float:
        return self.now

    def __call__(self, configs: Sequence[RunConfig], *, jobs: int, work: object) -> Iterator[Event]:
        self.now, self.start = self.now + self.start, 0.0
        self.jobs.append(jobs)
        for first in range(0, len(configs), jobs):
            now, together = self.now, configs[first : first + jobs]
            for config in together:
                yield Started(config)
            for config in sorted(together, key=time_left.work):
                self.now = now + self.beside + self.pace * time_left.work(config)
                self.made.append(config)
                yield Finished(self.record(config))

    def record(self, config: RunConfig) -> RunRecord:
        record, steps = records.done(config, 2.0), self.pace * time_left.guess(config, config.steps)
        assert record.result is not None
        whole = self.pace * time_left.work(config)
        return replace(
            record,
            result=replace(record.result, steps_done=config.steps),
            seconds={"steps": steps, "eval": whole - steps, "total": whole},
        )


@pytest.mark.parametrize(("start", "beside", "pace"), [(0.0, 0.0, 1.0), (20.0, 0.5, 6.0), (3.0, 2.0, 0.3)])
@pytest.mark.parametrize("jobs", [1, 2, 40])
def test_a_sample_measures_the_machine(start: float, beside: float, pace: float, jobs: int) -> None:
    machine = Machine(start, beside, pace)
    sample = sampling.sample(TODO, jobs, machine, Job(), machine.clock)
    assert sample is not None
    assert sample.start_seconds == pytest.approx(start, abs=1e-6)
    assert sample.run_seconds == pytest.approx(beside, abs=1e-6)
    measured = time_left.pace((), sample)
    assert measured.run(TODO[0]) == pytest.approx(pace * time_left.work(TODO[0]) + beside)
    assert "short runs" in measured.basis
    expected = start + max(sum(map(measured.run, TODO)) / jobs, max(map(measured.run, TODO))) + measured.end_seconds
    assert time_left.seconds(TODO, measured, jobs) == pytest.approx(expected)


def test_a_sample_is_short_and_of_every_network_and_as_busy_as_the_sweep() -> None:
    machine = Machine(1.0, 1.0, 1.0)
    sampling.sample(TODO, 3, machine, Job(), machine.clock)
    assert machine.jobs == [1, 3]
    assert {(run.norm, run.depth) for run in machine.made[1:]} == {(run.norm, run.depth) for run in TODO}
    assert len({run.run_id for run in machine.made}) == len(machine.made)
    assert all(time_left.guess(run, run.steps) <= sampling.RUN_SECONDS for run in machine.made)
    assert all(run.eval_every == run.steps < 500 for run in machine.made)


def test_sampled_runs_are_never_longer_than_the_original() -> None:
    assert sampling.shorter(RunConfig(steps=2)).steps == 2


def test_a_failed_sample_returns_none() -> None:
    machine = Machine(1.0, 1.0, 1.0)
    machine.record = records.failed  # type: ignore[method-assign]
    assert sampling.sample(TODO, 2, machine, Job(), machine.clock) is None


class TestSeconds:
    OPTIONS = Options(out=Path("results"), jobs=2)

    @pytest.fixture
    def machine(self, monkeypatch: pytest.MonkeyPatch) -> Machine:
        machine = Machine(3.0, 1.0, 8.0)
        monkeypatch.setattr(sampling, "chosen", lambda name, scheduler: machine)
        monkeypatch.setattr("normexp.runner.sampling.sample.__defaults__", (machine.clock,))
        return machine

    def test_a_sweep_without_stored_runs_is_sampled(self, machine: Machine) -> None:
        seconds, basis = sampling.seconds(TODO, [], self.OPTIONS, {})
        assert "4 short runs" in basis
        runs = 8.0 * sum(map(time_left.work, TODO)) + len(TODO)
        assert runs / 2 <= seconds <= runs / 2 + 3.0 + 8.0 * time_left.ASSUMED_END_SECONDS + 1e-6

    def test_evaluations_count(self, machine: Machine) -> None:
        often = [replace(run, eval_every=2) for run in TODO]
        assert sampling.seconds(often, [], self.OPTIONS, {})[0] > 3 * sampling.seconds(TODO, [], self.OPTIONS, {})[0]

    def test_a_short_sweep_is_guessed(self, machine: Machine) -> None:
        assert "guess" in sampling.seconds([RunConfig(depth=1, steps=3)], [], self.OPTIONS, {})[1]
        assert machine.made == []

    def test_stored_runs_of_every_mixer_are_enough(self, machine: Machine) -> None:
        stored = [machine.record(replace(TODO[0], mixer="attention"))]
        assert sampling.seconds(TODO, stored, self.OPTIONS, {})[1] == "based on stored runs"
        assert machine.made == []
        linear = [replace(run, mixer="linear") for run in TODO]
        assert "short runs" in sampling.seconds([*TODO, *linear], stored, self.OPTIONS, {})[1]

    def test_other_machines_are_not_sampled(self, machine: Machine) -> None:
        away = replace(self.OPTIONS, executor="dask", scheduler="tcp://there:8786")
        assert "guess" in sampling.seconds(TODO, [], away, {})[1]

    def test_a_machine_that_starts_no_worker_is_guessed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise LauncherError("no workers here")

        monkeypatch.setattr(sampling, "sample", refuse)
        assert "guess" in sampling.seconds(TODO, [], self.OPTIONS, {})[1]


@pytest.mark.slow
def test_a_real_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "RUN_SECONDS", 0.05)
    todo = [RunConfig(depth=2, steps=100_000, seed=seed) for seed in (0, 1)]
    seconds, basis = sampling.seconds(todo, [], Options(out=Path("results"), jobs=2), check_tasks(todo))
    assert "2 short runs" in basis
    assert seconds > 1
