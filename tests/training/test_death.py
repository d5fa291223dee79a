"""Runs that become non-finite: step, kind, tensor and layer of the first non-finite number."""

import dataclasses
import math

import pytest
import torch

from normexp.config.run import RunConfig
from normexp.model.network import Network
from normexp.records.record import Death
from normexp.training.compiled_optimizers import CompiledAdam
from normexp.training.divergence import REPLAYED_STEPS, locate_step, locate_validation, replay
from normexp.training.loop import train
from normexp.training.optimizers import FlatParameters
from normexp.training.trainer import Trainer

SMALL = RunConfig(depth=3, width=16, hidden=16, heads=2, vocab=16, batch=8, steps=60, eval_every=20)
BLOWS_UP = dataclasses.replace(SMALL, norm="none", optimizer="sgd", lr=50.0)


def poisoned(config: RunConfig, name: str, value: float) -> Trainer:
    trainer = Trainer(config)
    with torch.no_grad():
        trainer.network.get_parameter(name).flatten()[0] = value
    return trainer


@pytest.mark.parametrize(
    ("parameter", "value", "kind", "tensor", "layer"),
    [
        ("embedding.weight", math.nan, "nan", "embedding", 0),
        ("blocks.2.mixer.f.out.weight", math.inf, "inf", "blocks.2.mixer.f.out", 2),
        ("blocks.3.ffn.f.fc1.bias", math.nan, "nan", "blocks.3.ffn.f.fc1", 3),
        ("final_norm.weight", math.nan, "nan", "final_norm", 4),
        ("head.weight", math.inf, "inf", "head", 4),
    ],
)
def test_the_first_bad_activation_is_named(parameter: str, value: float, kind: str, tensor: str, layer: int) -> None:
    trainer = poisoned(SMALL, parameter, value)
    batch = next(trainer.task.batches(0, 64))
    step = trainer.step(1, batch)
    assert step.bad == "loss"
    death = locate_step(trainer, 1, batch, step.bad, step.loss)
    assert death == Death(step=1, kind=kind, where="activation", tensor=tensor, layer=layer)


def test_finite_logits_too_far_apart_overflow_in_the_loss() -> None:
    trainer = Trainer(SMALL)
    with torch.no_grad():
        trainer.network.final_norm.weight.zero_()
        trainer.network.final_norm.bias[0] = 1.0
        trainer.network.head.weight[:, 0] = torch.tensor([-3e38, 3e38] * 8)
    batch = next(trainer.task.batches(0, 8))
    step = trainer.step(1, batch)
    death = locate_step(trainer, 1, batch, step.bad, step.loss)
    assert death == Death(step=1, kind="inf", where="loss", tensor="loss", layer=4)


def test_a_bad_gradient_is_found_in_backward_order(monkeypatch: pytest.MonkeyPatch) -> None:
    class Overflow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad * math.inf

    trainer = Trainer(SMALL, autograd=True)
    ffn = trainer.network.blocks["2"].ffn.f
    forward = ffn.forward
    monkeypatch.setattr(ffn, "forward", lambda x: forward(Overflow.apply(x)))
    before = trainer.flat.values.clone()
    batch = next(trainer.task.batches(0, 8))
    step = trainer.step(1, batch)
    assert step.bad == "grad"
    assert (trainer.flat.values == before).all()
    death = locate_step(trainer, 1, batch, step.bad, step.loss)
    assert (death.where, death.layer) == ("grad", 2)
    assert death.tensor.startswith("blocks.2.ffn")


def test_a_bad_parameter_after_the_update() -> None:
    trainer = Trainer(dataclasses.replace(SMALL, optimizer="sgd", lr=1e30))
    batch = next(trainer.task.batches(0, 8))
    trainer.flat.grads.zero_()
    with torch.no_grad():
        trainer.network.get_parameter("blocks.1.ffn.f.fc2.weight").grad.fill_(1e30)
    trainer.optimizer.step(trainer.config.lr)
    assert not trainer.flat.values_finite()
    death = locate_step(trainer, 4, batch, "param", 1.0)
    assert death == Death(step=4, kind="inf", where="param", tensor="blocks.1.ffn.f.fc2.weight", layer=1)


def test_a_step_whose_update_overflows_reports_it() -> None:
    trainer = Trainer(dataclasses.replace(SMALL, optimizer="sgd", lr=1e30))
    with torch.no_grad():
        trainer.network.head.weight.mul_(1e10)
    step = trainer.step(1, next(trainer.task.batches(0, 8)))
    assert math.isfinite(step.loss)
    assert math.isfinite(step.grad_norm)
    assert step.bad == "param"


def test_a_bad_validation_names_its_tensor() -> None:
    trainer = poisoned(SMALL, "blocks.1.mixer.f.qkv.bias", math.nan)
    loss = trainer.evaluate()
    assert math.isnan(loss)
    death = locate_validation(trainer, 20, loss)
    assert death == Death(step=20, kind="nan", where="validation", tensor="blocks.1.mixer.f.qkv", layer=1)


class TestARunThatBecomesNonFinite:
    def test_stops_at_its_first_bad_step_and_replays_the_last_steps(self) -> None:
        training = train(BLOWS_UP)
        death = training.result.death
        assert death is not None
        last = training.traces.curve[-1]
        assert last.step == death.step < 60
        assert all(row.train_loss is None or math.isfinite(row.train_loss) for row in training.traces.curve[:-1])
        assert 0 <= death.layer <= 4
        assert training.result.final_val_loss is None
        assert death.where in ("activation", "loss", "grad")
        assert training.result.steps_done == death.step - 1
        rows = training.traces.death_layers
        steps = sorted({row.step for row in rows})
        assert steps == list(range(max(1, death.step - REPLAYED_STEPS + 1), death.step + 1))
        assert {row.layer for row in rows if row.part == "stream"} == {0, 1, 2, 3, 4}

    def test_counts_the_update_that_overflowed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(FlatParameters, "values_finite", lambda flat: False)
        monkeypatch.setattr(CompiledAdam, "step", lambda adam, lr: False)
        training = train(SMALL)
        assert training.result.death is not None
        assert (training.result.death.step, training.result.death.where) == (1, "param")
        assert training.result.steps_done == 1

    def test_the_step_does_not_depend_on_evaluations(self) -> None:
        seldom = train(dataclasses.replace(BLOWS_UP, eval_every=1000)).result.death
        assert seldom is not None
        assert seldom.where != "validation"
        assert seldom == train(BLOWS_UP).result.death

    def test_a_network_that_starts_non_finite_ends_at_step_0(self, monkeypatch: pytest.MonkeyPatch) -> None:
        evaluated = Trainer.evaluate
        monkeypatch.setattr(Trainer, "evaluate", lambda trainer: evaluated(trainer) * math.inf)
        training = train(SMALL)
        assert training.result.death is not None
        assert (training.result.death.step, training.result.death.where) == (0, "validation")
        assert training.result.steps_done == 0
        assert training.result.best_val_loss is None


def test_a_replay_repeats_the_numbers_of_the_training() -> None:
    training = train(dataclasses.replace(SMALL, steps=40))
    death = Death(step=40, kind="nan", where="loss", tensor="loss", layer=4)
    replayed = {}
    make = Trainer

    class Recorder(make):
        def step(self, number, batch):
            replayed[number] = super().step(number, batch)
            return replayed[number]

    rows = replay(dataclasses.replace(SMALL, steps=40), death, make=Recorder)
    assert {row.step for row in rows} == set(range(9, 41))
    losses = {row.step: row.train_loss for row in training.traces.curve[1:]}
    assert {number: step.loss for number, step in replayed.items()} == losses


def test_training_steps_have_no_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    hooked = []
    step = Trainer.step

    def watched(trainer: Trainer, number: int, batch):
        network: Network = trainer.network
        hooked.extend(m for m in network.modules() if m._forward_hooks or m._forward_pre_hooks)
        return step(trainer, number, batch)

    monkeypatch.setattr(Trainer, "step", watched)
    train(dataclasses.replace(SMALL, steps=5, eval_every=2))
    assert hooked == []
