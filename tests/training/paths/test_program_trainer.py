"""Training by a program and by autograd: the same losses and deaths to rounding, and which of them a run takes."""

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
    """Every test by the tape, and by compiled kernels where there is a compiler."""
    if request.param is ExecutionPath.COMPILED and choice.fastest().path is not request.param:
        pytest.skip(choice.fastest().why)
    monkeypatch.setenv(VARIABLE, request.param)
    return ExecutionPath(request.param)


def forbid_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program fails the test."""
    for kind in PROGRAMS.values():
        monkeypatch.setattr(f"normexp.training.trainer.{kind.__name__}", refuse)


def refuse(*_: object) -> NoReturn:
    raise AssertionError("a program was made")


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
        """A difference of 1e-7 a step grows with the steps; Adam makes whole updates even of gradients near rounding.

        A tenth of that would show a fault: other gradients part the losses in their second or third digit.
        """
        run = small(**{"depth": 3, "width": 16, "batch": 8, "steps": 50, "eval_every": 50, "lr": 3e-3, **keys})
        (found, death), (wanted, _) = training(run, autograd=False), training(run, autograd=True)
        assert death is None
        assert len(found) == 50
        assert wanted[-1] < wanted[0]
        assert found == pytest.approx(wanted, rel=1e-4)
        assert found != wanted  # they are two paths

    def test_have_the_same_first_step(self) -> None:
        run = small(norm="bn", depth=3)
        trainers = [Trainer(run, autograd=autograd) for autograd in (False, True)]
        batch = next(trainers[0].task.batches(0, run.batch))
        (loss, norm), (wanted, wanted_norm) = (trainer.gradients(batch) for trainer in trainers)
        assert loss == pytest.approx(wanted, rel=FLOAT32_TOLERANCE)
        assert norm == pytest.approx(wanted_norm, rel=FLOAT32_TOLERANCE)
        one, other = (trainer.flat.grads for trainer in trainers)
        assert (one - other).abs().max() <= FLOAT32_TOLERANCE * other.abs().max()
        for (name, found), (_, expected) in zip(*(t.network.named_buffers() for t in trainers), strict=True):
            assert torch.allclose(found, expected, rtol=1e-5, atol=1e-7), name

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
    def test_die_alike(self, keys: dict[str, object]) -> None:
        run = small(**{"norm": "none", "depth": 3, "batch": 8, "steps": 10, "eval_every": 5, **keys})
        (_, found), (_, wanted) = training(run, autograd=False), training(run, autograd=True)
        assert found is not None
        assert wanted is not None
        assert (found.step, found.kind, found.where) == (wanted.step, wanted.kind, wanted.where)

    def test_batches_of_several_shapes_have_a_program_each(self) -> None:
        run = small()
        one, other = Trainer(run), Trainer(run, autograd=True)
        batches = [next(one.task.batches(0, size)) for size in (3, 5, 3)]
        batches.append(Batch(batches[0].inputs_nt[:, :3], batches[0].targets_nt[:, :3]))
        for batch in batches:
            assert one.gradients(batch) == pytest.approx(other.gradients(batch), rel=FLOAT32_TOLERANCE)
            assert (one.flat.grads - other.flat.grads).abs().max() <= FLOAT32_TOLERANCE * other.flat.grads.abs().max()


class TestWhoTakesWhich:
    @pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
    def test_16_bits_take_autograd(self, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
        forbid_programs(monkeypatch)
        run = small(dtype=dtype)
        assert steps(run, 2) == steps(run, 2, autograd=True)

    def test_plain_takes_autograd(self, monkeypatch: pytest.MonkeyPatch) -> None:
        forbid_programs(monkeypatch)
        assert len(steps(small(), 2, autograd=True)) == 2
        with pytest.raises(AssertionError, match="a program was made"):
            steps(small(), 1)

    def test_a_torch_on_which_programs_fail_takes_autograd(self, monkeypatch: pytest.MonkeyPatch) -> None:
        expected = steps(small(), 3, autograd=True)
        assert steps(small(), 3) != expected
        monkeypatch.delenv(VARIABLE)
        monkeypatch.setattr(choice, "_settled", None)
        monkeypatch.setattr(choice, "works", lambda: False)
        monkeypatch.setattr(choice, "_fastest", choice._fastest.__wrapped__)
        forbid_programs(monkeypatch)
        assert steps(small(), 3) == expected


def overflowing(norm: str) -> Trainer:
    """Two tokens, of which the first would look at the second, were it let to, with a logit past float32.

    Queries are features 0 to 7, large at the first position, keys 8 to 15, large at the second; nothing else is. The
    stream's squares do not overflow.
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


def assert_same(path: ExecutionPath, found: tuple[list[float], object], wanted: tuple[list[float], object]) -> None:
    """The compiled optimizer rounds in its own order, even after gradients by autograd."""
    assert found[1] is wanted[1] is None
    assert found[0] == (wanted[0] if path is ExecutionPath.TAPE else pytest.approx(wanted[0], rel=1e-6))


class TestWhatTheProgramFindsNonFinite:
    """A masked pair whose logit overflows: infinity less infinity in a program, and nothing to autograd's kernel."""

    @pytest.mark.parametrize("norm", ["none", "ln", "bn"])
    def test_is_left_to_autograd(self, norm: str) -> None:
        trainer, autograd = overflowing(norm), overflowing(norm)
        autograd._by_program = False
        batch = next(trainer.task.batches(0, 2))
        alone = overflowing(norm)
        assert math.isnan(Program(alone.network, 2, 2, alone.task.first)(batch))
        found, wanted = trainer.step(1, batch), autograd.step(1, batch)
        assert wanted.bad is None
        assert found == wanted
        assert torch.equal(trainer.flat.values, autograd.flat.values)
        for (name, one), (_, other) in zip(
            trainer.network.named_buffers(), autograd.network.named_buffers(), strict=True
        ):
            assert torch.equal(one, other), name
        assert all(one.isfinite().all() for one in trainer.network.buffers())

    def test_kills_no_run(self, path: ExecutionPath, monkeypatch: pytest.MonkeyPatch) -> None:
        run = small(norm="bn", steps=6, eval_every=3)
        expected = training(run, autograd=True)
        monkeypatch.setattr(Program, "__call__", lambda program, batch: math.nan)
        assert_same(path, training(run, autograd=False), expected)

    def test_gradients_alone_suffice(self, path: ExecutionPath, monkeypatch: pytest.MonkeyPatch) -> None:
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
    def test_is_a_death_where_autograd_finds_it_too(self, parameter: str, value: float) -> None:
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
    """A user's norm that draws random numbers."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, 0.5)


def test_random_numbers_of_a_users_norm_are_drawn_in_the_same_order() -> None:
    found = []
    for autograd in (False, True):
        trainer = Trainer(small(), autograd=autograd)
        for block in trainer.network.blocks.values():
            block.mixer.before = block.ffn.output = Drops()
        torch.manual_seed(3)
        batches = trainer.task.batches(0, 3)
        found.append([trainer.gradients(next(batches)) for _ in range(3)])
    assert [pair[0] for pair in found[0]] == pytest.approx([pair[0] for pair in found[1]], rel=1e-5)
