from dataclasses import replace

import pytest
import records
import torch
from torch.utils.flop_counter import FlopCounterMode

from normexp.config.run import RunConfig
from normexp.data.tasks import VALIDATION_SEQUENCES
from normexp.records.record import RunRecord
from normexp.runner import time_left
from normexp.training.trainer import Trainer


@pytest.mark.parametrize("mixer", ["attention", "mean", "linear"])
def test_operations_of_a_step_are_those_that_torch_counts(mixer: str) -> None:
    config = RunConfig(depth=3, mixer=mixer)
    trainer = Trainer(config)
    batch = next(trainer.task.batches(0, config.batch))
    with FlopCounterMode(display=False) as counter:
        trainer.backward(batch)
    matrices = {torch.ops.aten.mm, torch.ops.aten.addmm}  # bmm: the products inside attention
    counted = sum(count for operation, count in counter.get_flop_counts()["Global"].items() if operation in matrices)
    assert time_left.flops(config) == pytest.approx(counted, rel=0.05)


def took(config: RunConfig, times: float, **seconds: float) -> RunRecord:
    """A run whose steps and evaluations took so many times as long as guessed."""
    trained = times * time_left.work(config)
    return replace(records.done(config, 2.0), seconds={"steps": 0.75 * trained, "eval": 0.25 * trained} | seconds)


def record_of(config: RunConfig, times: float, beside: float = 0.0) -> RunRecord:
    """The same, `total` with what it took beside them."""
    record = took(config, times)
    return replace(record, seconds={**record.seconds, "total": sum(record.seconds.values()) + beside})


def test_a_run_is_its_steps_and_its_evaluations() -> None:
    run = RunConfig(steps=1000, eval_every=100)
    assert time_left.work(run) == pytest.approx(time_left.guess(run, 1000) + 11 * time_left.evaluation(run))
    often = replace(run, eval_every=1)
    assert time_left.work(often) == pytest.approx(time_left.guess(run, 1000) + 1001 * time_left.evaluation(run))
    odd = replace(run, eval_every=300)
    assert time_left.work(odd) == pytest.approx(time_left.guess(run, 1000) + 5 * time_left.evaluation(run)), "the last"
    for stop in (0, 99, 100, 101, 999):
        parts = time_left.work(run, 0, stop) + time_left.work(run, stop) * (stop > 0)
        assert parts == pytest.approx(time_left.work(run) if stop else time_left.evaluation(run))


@pytest.mark.parametrize("batch", [8, 32, 128])
def test_an_evaluation_is_a_forward_pass_and_the_layer_signal(batch: int) -> None:
    run = RunConfig(depth=2, batch=batch)
    forward = VALIDATION_SEQUENCES / batch / 3
    assert time_left.evaluation(run) == pytest.approx(time_left.guess(run, 1) * (forward + time_left.SIGNAL_STEPS))


def test_stored_runs_give_the_pace_and_its_basis() -> None:
    run = RunConfig(depth=4, steps=records.STEPS)
    pace = time_left.pace([record_of(run, 3.0, beside=1.0)])
    assert "stored runs" in pace.basis
    longer = replace(run, steps=200)
    assert pace.run(longer) == pytest.approx(3 * time_left.work(longer) + 1.0 + time_left.ASSUMED_RUN_SECONDS), (
        "what is not of its steps does not grow with them"
    )


def test_a_sweep_takes_start_runs_and_figures() -> None:
    run = RunConfig(depth=4, steps=200)
    pace = time_left.Pace(basis="", overall=3.0, run_seconds=1.0, start_seconds=5.0)
    work = 3 * time_left.work(run) + 1.0
    assert time_left.seconds([run] * 4, pace, 2) == pytest.approx(5.0 + 2 * work + 3 * time_left.ASSUMED_END_SECONDS)


def test_tiny_runs_beside_a_long_one_do_not_mislead() -> None:
    long = RunConfig(depth=20, steps=records.STEPS)
    tiny = RunConfig(depth=1, width=8, heads=1, hidden=8, steps=records.STEPS)
    pace = time_left.pace([record_of(long, 2.0), *[record_of(tiny, 20.0)] * 9])
    assert pace.run(long) == pytest.approx(2.0 * time_left.work(long), rel=0.1)


def test_without_stored_runs_the_pace_is_a_guess() -> None:
    pace = time_left.pace([])
    assert "guess" in pace.basis
    assert time_left.seconds([RunConfig()], pace, 2) > 0
    assert time_left.seconds([], pace, 2) == 0


def test_one_long_run_is_not_split_over_workers() -> None:
    long, short, pace = RunConfig(steps=10_000), RunConfig(steps=10), time_left.pace([])
    assert time_left.seconds([long, short], pace, 8) == time_left.seconds([long], pace, 1)


def test_small_networks_cost_overhead_and_large_ones_operations() -> None:
    small = RunConfig(depth=20, width=8, hidden=8, heads=2, vocab=8, batch=1)
    assert time_left.guess(small, 10) == pytest.approx(10 * 21 * time_left.ASSUMED_OVERHEAD_SECONDS, rel=0.01)
    large = RunConfig(depth=20, width=1024, hidden=4096)
    assert time_left.guess(large, 10) == pytest.approx(10 * time_left.flops(large) / time_left.ASSUMED_RATE, rel=0.01)


def test_runs_of_the_same_mixer_are_asked_first() -> None:
    stored = [
        record_of(RunConfig(mixer=mixer, steps=records.STEPS), times)
        for mixer, times in (("linear", 2.0), ("linear", 2.0), ("attention", 5.0))
    ]
    pace = time_left.pace(stored)
    for mixer, factor in (("linear", 2.0), ("attention", 5.0), ("mean", pace.overall)):
        run = RunConfig(mixer=mixer)
        assert pace.run(run) == pytest.approx(factor * time_left.work(run) + time_left.ASSUMED_RUN_SECONDS)


def test_the_longest_runs_come_first_and_equal_ones_keep_their_order() -> None:
    short, deep, long = RunConfig(depth=2, steps=10), RunConfig(depth=20, steps=10), RunConfig(depth=2, steps=500)
    equal = replace(short, seed=3)
    assert time_left.longest_first([short, equal, deep, long]) == [long, deep, short, equal]
    assert time_left.longest_first([equal, short]) == [equal, short]
