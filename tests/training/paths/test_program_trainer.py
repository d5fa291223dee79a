"""Training by a program and by autograd: equal up to rounding, and which of them a run uses."""

from __future__ import annotations

import math
from typing import NoReturn

import pytest
import torch
from programs import FLOAT32_TOLERANCE, small
from torch import Tensor, nn

from normexp.config.run import RunConfig
from normexp.data.tasks import Batch
from normexp.records.execution_path import VARIABLE, ExecutionPath
from normexp.records.record import Death
from normexp.training.divergence import locate_step
from normexp.training.loop import train
from normexp.training.paths import choice
from normexp.training.paths.compiled.program import CompiledProgram
from normexp.training.paths.program import Program
from normexp.training.trainer import Step, Trainer

PROGRAMS = {ExecutionPath.TAPE: Program, ExecutionPath.COMPILED: CompiledProgram}


@pytest.fixture(params=PROGRAMS, autouse=True)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ExecutionPath:
    """Run every test by the tape, and by compiled kernels if there is a compiler."""
    if request.param is ExecutionPath.COMPILED and choice.fastest().path is not request.param:
        pytest.skip(choice.fastest().why)
    monkeypatch.setenv(VARIABLE, request.param)
    return ExecutionPath(request.param)


def forbid_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test if a program is created."""
    for kind in PROGRAMS.values():
        monkeypatch.setattr(f"normexp.training.trainer.{kind.__name__}", refuse)


def refuse(*_: object) -> NoReturn:
    raise AssertionError("a program was created")


def training(run: RunConfig, *, autograd: bool) -> tuple[list[float], Death | None]:
    made = train(run, autograd=autograd)
    return [row.train_loss for row in made.traces.curve[1:] if row.train_loss is not None], made.result.death


def steps(run: RunConfig, count: int, *, autograd: bool = False) -> list[Step]:
    trainer = Trainer(run, autograd=autograd)
    batches = trainer.task.batches(run.seed, run.batch)
    return [trainer.step(number, next(batches)) for number in range(1, count + 1)]


TRAINED = (
    {},
    {"norm": "rms", "position": "post", "activation": "relu"},
    {"norm": "bn", "mixer": "mean"},
    {"norm": "none", "position": "rezero", "optimizer": "adamw", "weight_decay": 0.1},
    {"norm": "dyt", "position": "hybrid", "qk_norm": "l2", "clip": 0.5},
    {"norm": "scale", "position": "b2t", "optimizer": "sgd", "lr": 0.1, "warmup": 10},
)


class TestBothPaths:
    @pytest.mark.parametrize("keys", TRAINED, ids=str)
    def test_have_the_same_losses_over_50_steps(self, keys: dict[str, object]) -> None:
        """A difference of 1e-7 per step grows with the steps; Adam makes full updates even for tiny gradients.

        The tolerance is strict enough: wrong gradients change the losses in their second or third digit.
        """
        run = small(**{"depth": 3, "width": 16, "batch": 8, "steps": 50, "eval_every": 50, "lr": 3e-3, **keys})
        (losses, death), (wanted, _) = training(run, autograd=False), training(run, autograd=True)
        assert death is None
        assert len(losses) == 50
        assert wanted[-1] < wanted[0]
        assert losses == pytest.approx(wanted, rel=1e-4)
        assert losses != wanted  # the paths differ

    def test_have_the_same_first_step(self) -> None:
        run = small(norm="bn", depth=3)
        trainers = [Trainer(run, autograd=autograd) for autograd in (False, True)]
        batch = next(trainers[0].task.batches(0, run.batch))
        (loss, norm), (wanted, wanted_norm) = (trainer.gradients(batch) for trainer in trainers)
        assert loss == pytest.approx(wanted, rel=FLOAT32_TOLERANCE)
        assert norm == pytest.approx(wanted_norm, rel=FLOAT32_TOLERANCE)
        ours, theirs = (trainer.flat.grads for trainer in trainers)
        assert (ours - theirs).abs().max() <= FLOAT32_TOLERANCE * theirs.abs().max()
        for (name, buffer), (_, expected) in zip(*(t.network.named_buffers() for t in trainers), strict=True):
            assert torch.allclose(buffer, expected, rtol=1e-5, atol=1e-7), name

    @pytest.mark.parametrize(
        "keys",
        [
            {"optimizer": "sgd", "lr": 1.0},
            {"optimizer": "sgd", "lr": 3.0},
            {"optimizer": "sgd", "lr": 1e30},
            {"depth": 12, "width": 16, "lr": 1e-2, "init_gain": 4.0},
            {"norm": "ln", "optimizer": "sgd", "lr": 1e30},
            {"norm": "bn", "optimizer": "sgd", "lr": 1e30},
        ],
        ids=str,
    )
    def test_become_non_finite_at_the_same_place(self, keys: dict[str, object]) -> None:
        run = small(**{"norm": "none", "depth": 3, "batch": 8, "steps": 10, "eval_every": 5, **keys})
        (_, death), (_, wanted) = training(run, autograd=False), training(run, autograd=True)
        assert death is not None
        assert wanted is not None
        assert (death.step, death.kind, death.where) == (wanted.step, wanted.kind, wanted.where)

    def test_each_shape_of_batches_has_a_program(self) -> None:
        run = small()
        trainer, autograd = Trainer(run), Trainer(run, autograd=True)
        batches = [next(trainer.task.batches(0, size)) for size in (3, 5, 3)]
        batches.append(Batch(batches[0].inputs_nt[:, :3], batches[0].targets_nt[:, :3]))
        for batch in batches:
            assert trainer.gradients(batch) == pytest.approx(autograd.gradients(batch), rel=FLOAT32_TOLERANCE)
            gap = (trainer.flat.grads - autograd.flat.grads).abs().max()
            assert gap <= FLOAT32_TOLERANCE * autograd.flat.grads.abs().max()


class TestWhichPathIsUsed:
    @pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
    def test_16_bits_use_autograd(self, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
        forbid_programs(monkeypatch)
        run = small(dtype=dtype)
        assert steps(run, 2) == steps(run, 2, autograd=True)

    def test_autograd_can_be_requested(self, monkeypatch: pytest.MonkeyPatch) -> None:
        forbid_programs(monkeypatch)
        assert len(steps(small(), 2, autograd=True)) == 2
        with pytest.raises(AssertionError, match="program"):
            steps(small(), 1)

    def test_autograd_is_used_if_programs_do_not_work(self, monkeypatch: pytest.MonkeyPatch) -> None:
        expected = steps(small(), 3, autograd=True)
        assert steps(small(), 3) != expected
        monkeypatch.delenv(VARIABLE)
        monkeypatch.setattr(choice, "_settled", None)
        monkeypatch.setattr(choice, "works", lambda: False)
        monkeypatch.setattr(choice, "_fastest", choice._fastest.__wrapped__)
        forbid_programs(monkeypatch)
        assert steps(small(), 3) == expected


def overflowing(norm: str) -> Trainer:
    """Return a trainer with two tokens; the masked logit from the first to the second exceeds float32.

    Queries are features 0 to 7, large at the first position; keys are features 8 to 15, large at the second. The
    squares of the residual stream do not overflow.
    """
    run = RunConfig(
        depth=1, norm=norm, position="post", heads=1, width=16, hidden=4, vocab=4, seq_len=2, order=1, batch=2
    )
    trainer = Trainer(run)
    with torch.no_grad():
        network = trainer.network
        network.embedding.weight.mul_(1e-3)
        network.positions.weight.zero_()
        network.positions.weight[0, :8] = network.positions.weight[1, 8:] = 5e18
        weight = network.blocks["1"].mixer.f.qkv.weight.zero_()
        weight[:8, :8] = weight[16:24, 8:] = 4 * torch.eye(8)
        network.blocks["1"].ffn.f.fc2.weight.mul_(1e-25)
        if norm == "none":
            network.head.weight.mul_(1e-20)
    return trainer


def assert_same(path: ExecutionPath, actual: tuple[list[float], object], wanted: tuple[list[float], object]) -> None:
    """The compiled optimizer rounds differently, even after gradients by autograd."""
    assert actual[1] is wanted[1] is None
    assert actual[0] == (wanted[0] if path is ExecutionPath.TAPE else pytest.approx(wanted[0], rel=1e-6))


class TestNonFiniteResultsOfAProgram:
    """A masked pair with an overflowing logit: infinity minus infinity in a program, ignored by autograd's kernel."""

    @pytest.mark.parametrize("norm", ["none", "ln", "bn"])
    def test_are_recomputed_by_autograd(self, norm: str) -> None:
        trainer, autograd = overflowing(norm), overflowing(norm)
        autograd._by_program = False
        batch = next(trainer.task.batches(0, 2))
        alone = overflowing(norm)
        assert math.isnan(Program(alone.network, 2, 2, alone.task.first)(batch))
        step, wanted = trainer.step(1, batch), autograd.step(1, batch)
        assert wanted.bad is None
        assert step == wanted
        assert torch.equal(trainer.flat.values, autograd.flat.values)
        for buffer, expected in zip(trainer.network.buffers(), autograd.network.buffers(), strict=True):
            assert torch.equal(buffer, expected)
            assert buffer.isfinite().all()

    def test_end_no_run(self, path: ExecutionPath, monkeypatch: pytest.MonkeyPatch) -> None:
        run = small(norm="bn", steps=6, eval_every=3)
        expected = training(run, autograd=True)
        monkeypatch.setattr(Program, "__call__", lambda program, batch: math.nan)
        assert_same(path, training(run, autograd=False), expected)

    def test_include_gradients(self, path: ExecutionPath, monkeypatch: pytest.MonkeyPatch) -> None:
        run = small(norm="bn", steps=6, eval_every=3)
        expected = training(run, autograd=True)
        call = Program.__call__

        def spoiled(program: Program, batch: Batch) -> float:
            loss = call(program, batch)
            next(iter(program.tape._parameters)).grad.fill_(math.inf)
            return loss

        monkeypatch.setattr(Program, "__call__", spoiled)
        assert_same(path, training(run, autograd=False), expected)

    @pytest.mark.parametrize(("parameter", "value"), [("embedding.weight", math.nan), ("head.weight", math.inf)])
    def test_end_the_run_if_autograd_agrees(self, parameter: str, value: float) -> None:
        deaths = []
        for autograd in (False, True):
            trainer = Trainer(small(), autograd=autograd)
            with torch.no_grad():
                trainer.network.get_parameter(parameter).flatten()[0] = value
            batch = next(trainer.task.batches(0, 64))
            step = trainer.step(1, batch)
            assert step.bad == "loss"
            deaths.append(locate_step(trainer, 1, batch, step.bad, step.loss))
        assert deaths[0] == deaths[1]


class Drops(nn.Module):
    """A plugin's norm that draws random numbers."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, 0.5)


def test_random_numbers_of_a_plugins_norm_are_drawn_in_the_same_order() -> None:
    losses = []
    for autograd in (False, True):
        trainer = Trainer(small(), autograd=autograd)
        for block in trainer.network.blocks.values():
            block.mixer.before = block.ffn.output = Drops()
        torch.manual_seed(3)
        batches = trainer.task.batches(0, 3)
        losses.append([trainer.gradients(next(batches))[0] for _ in range(3)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
