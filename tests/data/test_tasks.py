import dataclasses
import math
from itertools import islice

import numpy as np
import pytest

from normexp.config.run import RunConfig
from normexp.data.sources import SOURCES
from normexp.data.tasks import Batch, Task, remember
from normexp.records.record import Losses
from normexp.training.trainer import Trainer


def cross_entropy(predictions_ntv, batch: Batch, first: int) -> tuple[float, float]:
    """Return the mean loss on the counted targets, and its standard error, in nats."""
    targets = batch.targets_nt[:, first:, None]
    losses = -np.log(np.take_along_axis(predictions_ntv, targets, axis=2))
    return float(losses.mean()), float(losses.std() / math.sqrt(losses.size))


DEEP = RunConfig(
    task="lookups", vocab=5, order=8, sharpness=8.0, seq_len=24, lr=3e-3, warmup=100, schedule="cosine", steps=1000
)
CONFIGS = [
    RunConfig(order=1),
    RunConfig(),
    RunConfig(order=3, vocab=16, sharpness=2.0),
    RunConfig(order=1, vocab=5, seq_len=4, label_noise=0.2),
    RunConfig(label_noise=0.3, task_seed=7),
    RunConfig(task="lookups", order=1, vocab=6),
    RunConfig(task="lookups", order=4, vocab=5, sharpness=6.0),
    RunConfig(task="lookups", order=8, vocab=4, sharpness=8.0, seq_len=24, label_noise=0.1),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.task}-order{c.order}-v{c.vocab}-noise{c.label_noise}")
class TestReferences:
    def test_an_oracle_has_the_entropy_floor(self, config: RunConfig) -> None:
        task = Task(config)
        loss, _ = cross_entropy(task.predictions(task.validation.inputs_nt), task.validation, task.first)
        assert loss == pytest.approx(task.losses.floor, rel=1e-12)

    def test_an_oracle_has_the_floor_on_training_batches(self, config: RunConfig) -> None:
        task = Task(config)
        floor, error = cross_entropy(task.predictions(task.validation.inputs_nt), task.validation, task.first)
        batch = next(task.batches(3, 2048))
        loss, other_error = cross_entropy(task.predictions(batch.inputs_nt), batch, task.first)
        assert abs(loss - floor) < 4 * math.hypot(error, other_error)

    def test_no_tempered_oracle_beats_the_floor(self, config: RunConfig) -> None:
        task = Task(config)
        exact = task.predictions(task.validation.inputs_nt)
        for power in (0.7, 0.9, 1.1, 1.4):
            other = exact**power
            other /= other.sum(axis=2, keepdims=True)
            loss, error = cross_entropy(other, task.validation, task.first)
            assert loss > task.losses.floor - 2 * error

    def test_references_are_ordered(self, config: RunConfig) -> None:
        losses = Task(config).losses
        assert losses.floor <= losses.bigram < losses.guess < math.log(config.vocab) + 0.1

    def test_the_unigram_loss_is_the_best_constant_prediction(self, config: RunConfig) -> None:
        task = Task(config)
        counts = np.bincount(task.validation.targets_nt[:, task.first :].ravel(), minlength=config.vocab)
        share = counts / counts.sum()
        in_sample = -float((share[counts > 0] * np.log(share[counts > 0])).sum())
        assert in_sample <= task.losses.guess < in_sample + 0.02


@pytest.mark.parametrize("task", SOURCES)
def test_with_order_1_the_bigram_is_the_floor(task: str) -> None:
    losses = Task(RunConfig(task=task, order=1)).losses
    assert losses.bigram == pytest.approx(losses.floor, rel=1e-9)


def test_label_noise_replaces_its_fraction_of_targets_and_no_inputs() -> None:
    noisy = Task(RunConfig(label_noise=0.4, order=1))
    batch = next(noisy.batches(0, 4096))
    changed = (batch.inputs_nt[:, 1:] != batch.targets_nt[:, :-1]).mean()
    assert changed == pytest.approx(0.4 * 63 / 64, abs=0.01)


@pytest.mark.parametrize("task", SOURCES)
class TestStreams:
    def test_batches_depend_only_on_task_seed_and_number(self, task: str) -> None:
        config = RunConfig(task=task, batch=4)
        others = dataclasses.replace(config, steps=7, norm="rms", depth=3, lr=0.1)
        ours = [b.inputs_nt for b in islice(Task(config).batches(0, 4), 130)]
        theirs = [b.inputs_nt for b in islice(Task(others).batches(0, 4), 130)]
        assert all((a == b).all() for a, b in zip(ours, theirs, strict=True))
        assert len({a.tobytes() for a in ours}) == 130

    def test_the_validation_set_does_not_depend_on_the_seed(self, task: str) -> None:
        first, second = (Task(RunConfig(task=task, seed=seed)) for seed in (0, 1))
        assert (first.validation.inputs_nt == second.validation.inputs_nt).all()
        assert (next(first.batches(0, 4)).inputs_nt != next(second.batches(1, 4)).inputs_nt).any()

    def test_targets_are_the_next_inputs(self, task: str) -> None:
        batch = next(Task(RunConfig(task=task)).batches(0, 8))
        assert (batch.inputs_nt[:, 1:] == batch.targets_nt[:, :-1]).all()


def test_a_task_with_nothing_to_learn_is_rejected() -> None:
    with pytest.raises(ValueError, match="nothing to learn"):
        Task(RunConfig(sharpness=0.01)).check()
    Task(RunConfig()).check()


def test_a_task_with_an_infinite_reference_loss_is_rejected() -> None:
    sharp = RunConfig(sharpness=1e6, vocab=48, seq_len=64, task_seed=2)
    with pytest.raises(ValueError, match=r"bigram.*sharpness \(1e\+06\).*label_noise"):
        Task(sharp).check()
    assert math.isfinite(Task(dataclasses.replace(sharp, label_noise=0.01)).check().bigram)


def test_remembered_losses_are_used_only_for_their_task() -> None:
    config, known = RunConfig(vocab=8, order=1), Losses(floor=0.5, guess=2.0, bigram=1.0)
    remember({Task(config).name: known})
    try:
        assert Task(config).losses is known
        assert Task(dataclasses.replace(config, seed=1, depth=2)).losses is known
        for keys in ({"task_seed": 1}, {"sharpness": 3.0}, {"label_noise": 0.1}, {"seq_len": 8}, {"task": "lookups"}):
            assert Task(dataclasses.replace(config, **keys)).losses != known
    finally:
        remember({})
    assert Task(config).losses != known


@pytest.mark.slow
def test_depth_lowers_the_loss_on_lookups() -> None:
    """Over three seeds, the losses are 1.21 to 1.23 with one layer, 0.91 to 0.93 with 4, and 0.84 to 0.85 with 8."""

    def loss(depth: int, hidden: int = 128) -> float:
        config = dataclasses.replace(DEEP, depth=depth, hidden=hidden)
        trainer = Trainer(config)
        for number, batch in enumerate(islice(trainer.task.batches(config.seed, config.batch), config.steps), 1):
            assert trainer.step(number, batch).bad is None
        return trainer.evaluate()

    one, four, eight = loss(1), loss(4), loss(8)
    assert 1.15 < one < 1.3
    assert one - four > 0.22
    assert four - eight > 0.03
    assert loss(1, hidden=1920) > four + 0.2  # one layer with as many parameters as eight
