from dataclasses import replace

import pytest
import records
import torch
from torch.utils.flop_counter import FlopCounterMode

from normexp import estimate
from normexp.record import RunRecord
from normexp.run import RunConfig
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
    assert estimate.flops(config) == pytest.approx(counted, rel=0.05)


def test_stored_runs_give_the_rate_and_the_words() -> None:
    record = replace(records.done(RunConfig(depth=4, steps=100), 2.0), seconds={"steps": 3.0, "total": 4.0})
    todo = [RunConfig(depth=4, steps=200)] * 4
    seconds, basis = estimate.seconds(todo, [record], 2)
    assert seconds == pytest.approx((3.0 * 2 + 1.0) * 4 / 2), "what is not of its steps does not grow with them"
    assert basis == "by stored runs"


def test_tiny_runs_beside_a_long_one_do_not_mislead() -> None:
    long = RunConfig(depth=20, steps=records.STEPS)
    tiny = RunConfig(depth=1, width=8, heads=1, hidden=8, steps=records.STEPS)
    stored = [replace(records.done(long, 2.0), seconds={"steps": 60.0, "total": 61.0})]
    stored += [replace(records.done(tiny, 2.0), seconds={"steps": 0.5, "total": 1.5})] * 9
    assert estimate.seconds([long], stored, 1)[0] == pytest.approx(61.0, rel=0.1)


def test_without_stored_runs_it_is_said_to_be_a_guess() -> None:
    seconds, basis = estimate.seconds([RunConfig()], [], 2)
    assert seconds > 0
    assert "guess" in basis
    assert estimate.seconds([], [], 2)[0] == 0


def test_one_long_run_is_not_split_over_workers() -> None:
    long, short = RunConfig(steps=10_000), RunConfig(steps=10)
    assert estimate.seconds([long, short], [], 8)[0] == estimate.seconds([long], [], 1)[0]


def test_small_networks_cost_what_their_blocks_cost_and_large_ones_what_they_compute() -> None:
    small = RunConfig(depth=20, width=8, hidden=8, heads=2, vocab=8, batch=1)
    assert estimate.guess(small, 10) == pytest.approx(10 * 21 * estimate.ASSUMED_OVERHEAD_SECONDS, rel=0.01)
    large = RunConfig(depth=20, width=1024, hidden=4096)
    assert estimate.guess(large, 10) == pytest.approx(10 * estimate.flops(large) / estimate.ASSUMED_RATE, rel=0.01)


def test_runs_of_the_same_mixer_are_asked_first() -> None:
    def took(mixer: str, times_the_guess: float) -> RunRecord:
        record = records.done(RunConfig(mixer=mixer, steps=records.STEPS), 2.0)
        steps = times_the_guess * estimate.guess(record.config, records.STEPS)
        return replace(record, seconds=dict.fromkeys(("steps", "total"), steps))

    stored = [took("linear", 2.0), took("linear", 2.0), took("attention", 5.0)]
    for mixer, factor in (("linear", 2.0), ("attention", 5.0), ("mean", 2.0)):
        todo = [RunConfig(mixer=mixer)]
        assert estimate.seconds(todo, stored, 1)[0] == pytest.approx(factor * estimate.guess(todo[0], todo[0].steps))


def test_the_longest_runs_come_first_and_equal_ones_keep_their_order() -> None:
    short, deep, long = RunConfig(depth=2, steps=10), RunConfig(depth=20, steps=10), RunConfig(depth=2, steps=500)
    equal = replace(short, seed=3)
    assert estimate.longest_first([short, equal, deep, long]) == [long, deep, short, equal]
    assert estimate.longest_first([equal, short]) == [equal, short]
