"""A plugin's norm that draws random numbers: measuring the network never affects its training."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import pytest
import torch

from normexp.config import plugins
from normexp.config.run import RunConfig
from normexp.records.record import Death
from normexp.training.divergence import replay
from normexp.training.inspection import inspect, retrain
from normexp.training.layer_signal import mode_signal
from normexp.training.loop import Training, train
from normexp.training.trainer import Trainer

DROPS = plugins.Plugin(
    "drops.py",
    """
from torch import nn

from normexp.schemes import Norm

class Drops(nn.Module):
    def __init__(self, always):
        super().__init__()
        self.always = always

    def forward(self, x):
        return nn.functional.dropout(x, 0.2, training=self.training or self.always)

NORMS = {
    "drops": Norm(make=lambda width, run: Drops(False), help="drops features in training", source="here"),
    "drops_always": Norm(make=lambda width, run: Drops(True), help="drops features", source="here", causal=False),
}
""",
)


@pytest.fixture(autouse=True)
def _drops() -> Iterator[None]:
    with plugins.using(DROPS):
        yield


def config(norm: str = "drops", **keys: int | float | str) -> RunConfig:
    base = {"depth": 1, "width": 8, "heads": 2, "hidden": 8, "vocab": 8, "seq_len": 8, "batch": 4, "steps": 12}
    return RunConfig(norm=norm, **(base | {"eval_every": 12} | keys))


def losses(training: Training) -> list[float | None]:
    return [row.train_loss for row in training.traces.curve]


def test_evaluations_and_reports_do_not_affect_the_training() -> None:
    seldom = train(config())
    often = train(config(eval_every=3))
    watched = train(config(), report=lambda *_: None, look_seconds=0.0)
    assert losses(often) == losses(watched) == losses(seldom)
    assert often.result.final_val_loss == seldom.result.final_val_loss
    assert losses(train(config(seed=1))) != losses(seldom)


@pytest.mark.parametrize("autograd", [False, True])
def test_a_step_repeated_by_autograd_draws_the_same_numbers(autograd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer(config(), autograd=autograd)
    batch = next(trainer.task.batches(0, 4))
    first = trainer.gradients(batch)[0]
    assert trainer.again(batch) == pytest.approx(first, rel=1e-6)
    assert trainer.again(batch) != pytest.approx(trainer.gradients(batch)[0], rel=1e-6)
    with monkeypatch.context() as broken:
        broken.setattr(
            "normexp.training.paths.program.Program.__call__", lambda self, batch: torch.rand(1).item() + math.inf
        )
        fallen_back = trainer.gradients(batch)[0]
    assert trainer.again(batch) == fallen_back


@pytest.mark.parametrize("norm", ["drops", "drops_always"])
def test_retraining_ends_at_the_same_network(norm: str) -> None:
    run = config(norm, eval_every=5)
    training = train(run)
    torch.manual_seed(1)
    trainer = retrain(run)
    for name, parameter in training.network.named_parameters():
        assert torch.equal(parameter, trainer.network.get_parameter(name)), name
    assert trainer.evaluate() == training.result.final_val_loss


def test_a_replay_repeats_the_steps_and_their_measurements() -> None:
    seen: dict[int, float] = {}

    class Recorder(Trainer):
        def step(self, number, batch):
            step = super().step(number, batch)
            seen[number] = step.loss
            return step

    run = config(steps=40)
    torch.manual_seed(1)
    rows = replay(run, Death(step=40, kind="nan", where="loss", tensor="loss", layer=2), make=Recorder)
    assert [None, *seen.values()] == losses(train(run))
    torch.manual_seed(2)
    assert replay(run, Death(step=40, kind="nan", where="loss", tensor="loss", layer=2)) == rows


def test_measurements_only_depend_on_the_config() -> None:
    torch.manual_seed(1)
    first = inspect(config("drops_always"))
    torch.manual_seed(2)
    assert inspect(config("drops_always")) == first


def test_random_numbers_do_not_count_as_a_leak() -> None:
    trainer = Trainer(dataclasses.replace(config("drops_always"), depth=0, final_norm="drops_always"))
    assert mode_signal(trainer, trainer.signal_batch)["leak"][1, "logits"] == 0.0
