"""Networks scaled until they overflow: a compiled step is non-finite exactly if that of autograd is."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from kernels import needs_compiler

from normexp.config.run import RunConfig
from normexp.data.tasks import Task
from normexp.records.execution_path import ExecutionPath
from normexp.schemes.norms import NORMS
from normexp.training.trainer import Trainer

EXPONENTS = (0, 2, 4, 8, 12, 16, 19, 25, 38)
WAYS = ("all", "some", "nan", "inf")
FEW = (("ln", "pre", "attention"), ("none", "post", "attention"))
FEW_EXPONENTS = (0, 19, 38)
"""Networks and exponents in the default suite."""

pytestmark = needs_compiler


def blown_up(values: torch.Tensor, exponent: int, way: str) -> torch.Tensor:
    """Multiply all parameters, or one percent of them, by a power of ten; or set some to NaN or infinity."""
    torch.manual_seed(exponent)
    values = values.clone()
    where = torch.randint(len(values), (3,))
    if way == "all":
        values *= 10.0**exponent
    elif way == "some":
        values[torch.rand(len(values)) < 0.01] *= 10.0**exponent
    else:
        values[where] = math.nan if way == "nan" else math.inf
    return values


@pytest.mark.parametrize(
    ("norm", "position", "mixer", "exponents"),
    [
        *((*values, FEW_EXPONENTS) for values in FEW),
        *(
            pytest.param(*values, EXPONENTS, marks=pytest.mark.slow)
            for values in itertools.product(["none", *NORMS], ["pre", "post"], ["attention", "mean"])
        ),
    ],
)
def test_no_overflow_is_missed(norm: str, position: str, mixer: str, exponents: tuple[int, ...]) -> None:
    run = RunConfig(depth=3, norm=norm, position=position, mixer=mixer, batch=4)
    batch = next(Task(run).batches(0, run.batch))
    compiled, plain = Trainer(run, path=ExecutionPath.COMPILED), Trainer(run, autograd=True)
    start, buffers = plain.flat.values.clone(), [buffer.clone() for buffer in plain.network.buffers()]
    wrong = []
    for exponent, way in itertools.product(exponents, WAYS):
        finite = []
        for trainer in (compiled, plain):
            trainer.flat.values.copy_(blown_up(start, exponent, way))
            for buffer, values in zip(trainer.network.buffers(), buffers, strict=True):
                buffer.copy_(values)
            finite.append([math.isfinite(value) for value in (*trainer.gradients(batch), trainer.evaluate())])
        if finite[0] != finite[1]:
            wrong.append((exponent, way, finite))
    assert not wrong


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("grad", [1.0, 1e10, 1.5e19, 1e20, 1e30, 3e38])
def test_an_update_with_a_large_gradient_agrees_with_aten(optimizer: str, grad: float) -> None:
    """Includes gradients whose second moment overflows."""
    run = RunConfig(depth=1, optimizer=optimizer, weight_decay=0.0 if optimizer == "adam" else 0.1)
    trainers = [Trainer(run, path=path) for path in (ExecutionPath.COMPILED, ExecutionPath.AUTOGRAD)]
    for trainer in trainers:
        trainer.flat.grads.fill_(grad)
        trainer.flat.grads[::3] = -grad / 3
        for _ in range(3):
            trainer.update(1e-3, 1.0)
    compiled, aten = (trainer.flat.values for trainer in trainers)
    assert torch.equal(compiled.isfinite(), aten.isfinite())
    assert torch.allclose(compiled, aten, rtol=1e-5, atol=1e-7, equal_nan=True)


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("clip", [0.0, 0.5])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_updates_agree_with_aten(optimizer: str, clip: float, decay: float) -> None:
    run = RunConfig(depth=1, optimizer=optimizer, weight_decay=decay, clip=clip, width=12, hidden=7, heads=2)
    trainers = [Trainer(run, path=path) for path in (ExecutionPath.COMPILED, ExecutionPath.AUTOGRAD)]
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        grads = torch.randn(trainers[0].flat.grads.shape, generator=generator)
        for trainer in trainers:
            trainer.flat.grads.copy_(grads)
            trainer.update(1e-2, trainer._grad_norm())
    compiled, aten = (trainer.flat.values for trainer in trainers)
    assert torch.allclose(compiled, aten, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("place", [0, 100, -1])
def test_a_parameter_that_overflows_is_detected(optimizer: str, place: int) -> None:
    run = RunConfig(depth=1, optimizer=optimizer, width=12, hidden=7, heads=2)
    trainer = Trainer(run, path=ExecutionPath.COMPILED)
    trainer.flat.grads.zero_()
    assert trainer.update(1e-3, 1.0) == (True, True)
    trainer.flat.values[place] = math.inf
    assert trainer.update(1e-3, 1.0)[0] is False
