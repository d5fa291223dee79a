"""Training: the measurements of a short run, and that only the config affects its numbers."""

import dataclasses

import pytest
import torch

from normexp.config.run import RunConfig
from normexp.data.tasks import Batch
from normexp.training.loop import Training, train
from normexp.training.trainer import Trainer

SMALL = RunConfig(depth=2, width=16, hidden=16, heads=2, vocab=16, batch=8, steps=12, eval_every=5, lr=3e-3)


def small(**keys: object) -> Training:
    return train(dataclasses.replace(SMALL, **keys))


def losses(training: Training) -> list[float | None]:
    return [row.train_loss for row in training.traces.curve]


class TestTheCurve:
    def test_has_a_row_for_every_step_and_the_evaluations(self) -> None:
        training = small()
        curve = training.traces.curve
        assert [row.step for row in curve] == list(range(13))
        assert [step for step, _ in training.traces.evaluations] == [0, 5, 10, 12]
        assert curve[0].train_loss is None
        assert training.result.steps_done == 12
        assert training.result.final_val_loss == curve[-1].val_loss
        assert training.result.init_val_loss == curve[0].val_loss

    def test_the_best_loss_may_be_the_first(self) -> None:
        training = small(lr=3.0, clip=1.0)
        assert training.result.death is None
        assert training.result.best_val_loss == training.result.init_val_loss

    def test_the_first_loss_is_that_of_the_initial_network(self) -> None:
        trainer = Trainer(SMALL)
        batch = next(trainer.task.batches(SMALL.seed, SMALL.batch))
        with torch.no_grad():
            expected = trainer.loss(batch).item()
        assert losses(small())[1] == pytest.approx(expected, rel=1e-6)

    def test_the_learning_rate_is_that_of_the_update(self) -> None:
        training = small(warmup=4)
        assert [row.lr for row in training.traces.curve[1:6]] == pytest.approx([0.75e-3, 1.5e-3, 2.25e-3, 3e-3, 3e-3])
        assert training.result.peak_lr == 3e-3
        assert small(warmup=24).result.peak_lr == pytest.approx(1.5e-3)

    def test_layers_are_recorded_at_every_evaluation(self) -> None:
        rows = small().traces.layers
        assert {row.step for row in rows} == {0, 5, 10, 12}
        stream = [row.layer for row in rows if row.step == 0 and row.part == "stream"]
        assert stream == [0, 1, 2, 3]
        assert {row.quantity for row in rows} == {"rms", "grad_norm", "attention_entropy", "max_logit"}

    def test_only_targets_with_a_visible_context_count(self) -> None:
        trainer = Trainer(dataclasses.replace(SMALL, order=3, vocab=8))
        batch = next(trainer.task.batches(0, 4))
        before = trainer.loss(batch).item()

        def changed(positions: slice) -> float:
            targets = batch.targets_nt.copy()
            targets[:, positions] = (targets[:, positions] + 1) % 8
            return trainer.loss(Batch(batch.inputs_nt, targets)).item()

        assert changed(slice(0, 2)) == before
        assert changed(slice(2, 3)) != before


class TestTheSameConfigGivesTheSameNumbers:
    def test_for_any_number_of_steps(self) -> None:
        assert losses(small(steps=20))[:13] == losses(small())

    def test_but_not_for_another_seed(self) -> None:
        assert losses(small(seed=1))[1] != losses(small())[1]

    def test_for_any_random_state_of_the_caller(self) -> None:
        torch.manual_seed(1)
        first = small().traces
        torch.manual_seed(2)
        assert small().traces == first


def test_a_step_agrees_with_plain_torch() -> None:
    """Flat buffers, checks and schedule do not affect the losses: a plain loop gives the same, up to rounding."""
    config = dataclasses.replace(SMALL, steps=50, eval_every=50, weight_decay=0.0, lr=1e-3)
    reference = Trainer(config)
    network = reference.network
    for parameter in network.parameters():
        parameter.data = parameter.data.clone()
        parameter.grad = None
    optimizer = torch.optim.Adam(network.parameters(), lr=config.lr, foreach=False)
    batches = reference.task.batches(config.seed, config.batch)
    expected = []
    for _ in range(50):
        optimizer.zero_grad()
        loss = reference.loss(next(batches))
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    assert losses(train(config))[1:] == pytest.approx(expected, rel=1e-4)


def test_clipping_bounds_the_update() -> None:
    config = dataclasses.replace(SMALL, optimizer="sgd", lr=1.0, clip=0.5)
    trainer = Trainer(config)
    before = trainer.flat.values.clone()
    step = trainer.step(1, next(trainer.task.batches(0, 8)))
    assert step.grad_norm > 0.5
    assert (trainer.flat.values - before).norm().item() == pytest.approx(0.5, rel=1e-3)


def test_every_step_is_reported() -> None:
    seen: list[tuple[int, float]] = []
    train(SMALL, report=lambda step, loss, grad_norm, rms: seen.append((step, len(rms))))
    assert seen == [(step, 4) for step in range(1, 13)]


def test_a_task_with_nothing_to_learn_is_rejected() -> None:
    with pytest.raises(ValueError, match="nothing to learn"):
        small(sharpness=0.01)


def test_reports_do_not_affect_the_numbers() -> None:
    config = RunConfig(depth=2, width=16, heads=2, hidden=16, vocab=16, norm="bn", steps=6, eval_every=6, batch=4)
    seen: list[tuple[float, ...]] = []
    alone = train(config, report=lambda step, loss, grad_norm, rms: None)
    watched = train(config, report=lambda step, loss, grad_norm, rms: seen.append(rms), look_seconds=0.0)
    assert watched.traces == alone.traces
    assert len({rms[2] for rms in seen[:-1]}) == 5, "every step has different sizes"
    assert {len(rms) for rms in seen} == {4}
