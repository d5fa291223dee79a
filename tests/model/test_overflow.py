"""A statistic that overflows inside a norm ends the run, on every path; below that, nothing changes.

Formulas in float64, separate from the modules, decide whether a statistic overflows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace

import formulas
import numpy as np
import pytest
import torch
from kernels import needs_compiler
from torch import Tensor, nn
from torch.nn import functional

from normexp.config import plugins
from normexp.config.run import QK_NORMS, RunConfig
from normexp.data.tasks import Batch
from normexp.model.branches import UnitLength, attend
from normexp.model.network import Network, layer_of
from normexp.model.norms import BatchNorm, DyT, ScaleNorm, make_norm
from normexp.model.overflow import all_finite
from normexp.records.execution_path import ExecutionPath
from normexp.records.record import Death
from normexp.schemes.norms import NORMS
from normexp.schemes.schemes import SCHEMES
from normexp.training.divergence import locate_step, locate_validation
from normexp.training.inspection import inspect
from normexp.training.loop import train
from normexp.training.optimizers import OPTIMIZERS
from normexp.training.trainer import Step, Trainer

KINDS = {UnitLength: "l2"} | {
    type(make_norm(name, 4, run)): name
    for run in (RunConfig(), RunConfig(dtype="bfloat16", norm_dtype="same"))
    for name in NORMS
    if name not in formulas.NEVER_OVERFLOW
}
"""The modules of all norms that can overflow, and the names of their formulas."""
CAN_OVERFLOW = set(NORMS) - formulas.NEVER_OVERFLOW
COMPILED = pytest.param(ExecutionPath.COMPILED, marks=needs_compiler)
ABOVE, BELOW = 2.0, 0.5
"""Multiples of the largest float."""


def small(**keys: object) -> RunConfig:
    tiny = {"depth": 1, "width": 8, "hidden": 12, "heads": 2, "vocab": 7, "seq_len": 5, "batch": 3, "order": 1}
    return RunConfig(**{**tiny, "dyt_alpha": 16.0, **keys})  # type: ignore[arg-type]


def before(norm: nn.Module, x: Tensor) -> Tensor | None:
    """Return the output of the norm without overflow checks, to the last bit; None for a norm without such checks."""
    if isinstance(norm, nn.LayerNorm):
        return functional.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
    if isinstance(norm, nn.RMSNorm):
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x * torch.addcmul(torch.tensor(norm.eps), length, length, value=1 / x.shape[-1]).rsqrt() * norm.weight
    if isinstance(norm, BatchNorm):
        flat = x.reshape(-1, x.shape[-1])
        return functional.batch_norm(flat, None, None, norm.weight, norm.bias, True, 0.1, norm.eps).view_as(x)
    if isinstance(norm, DyT):
        return norm.weight * torch.tanh(norm.alpha * x) + norm.bias
    if isinstance(norm, ScaleNorm | UnitLength):
        inverse = torch.rsqrt(x.square().sum(-1, keepdim=True) + norm.floor)
        if isinstance(norm, ScaleNorm):
            return norm.gain * x * inverse
        return x * inverse if norm.gain is None else norm.gain * (x * inverse)
    return None


def sites(network: Network) -> list[str]:
    """Return the name of every norm; for a wrapper, that of the wrapped norm."""
    return [name for name, module in network.named_modules() if type(module) in KINDS]


PARTS = {"qkv_norms.0": 0, "q_norm": 0, "qkv_norms.1": 1, "k_norm": 1, "qkv_norms.2": 2, "mixer.f.within": 2}
"""Which of queries, keys and values the norms inside attention read."""


def source(network: Network, site: str) -> list[Tensor]:
    """Return the parameters that scale the input of a norm, but no input of an earlier norm."""
    seen: list[str] = []
    modules = [(name, module) for name, module in network.named_modules() if module._parameters or name == site]
    handles = [m.register_forward_pre_hook(lambda *_, name=name: seen.append(name)) for name, m in modules]
    with torch.no_grad():
        network(torch.zeros(2, 5, dtype=torch.long))
    for handle in handles:
        handle.remove()
    feeding = seen[: seen.index(site)]
    for part, number in PARTS.items():
        if part in site:
            qkv = next(name for name in reversed(feeding) if name.endswith("qkv"))
            return [parameter.data.chunk(3)[number] for parameter in network.get_submodule(qkv).parameters()]
    last = network.get_submodule(feeding[-1])
    return [parameter.data for name, parameter in last.named_parameters() if name != "alpha"]


def dtype_inside(run: RunConfig) -> torch.dtype:
    """Return the dtype in which the norms of a run compute."""
    return torch.float32 if run.norm_dtype == "float32" else getattr(torch, run.dtype)  # type: ignore[no-any-return]


class Grown:
    """A trainer whose network is scaled until the statistic of one norm is `times` the largest float."""

    def __init__(self, run: RunConfig, site: str, times: float, *, path: ExecutionPath) -> None:
        self.trainer = Trainer(run, path=path)
        network, self.site = self.trainer.network, site
        self.norm = network.get_submodule(site)
        self.batch = next(self.trainer.task.batches(0, run.batch))
        parameters, self.largest = source(network, site), torch.finfo(dtype_inside(run)).max
        power = formulas.DEGREES.get(KINDS[type(self.norm)], 2)
        with torch.no_grad():
            for aim in (1e-3, 1e-3, times, times):  # repeated, since the dependence is not exactly proportional
                factor = (aim * self.largest / self.statistic(below=times < 1)) ** (1 / power)
                for parameter in parameters:
                    parameter.mul_(factor)
        self.overflows = self.statistic(below=times < 1) > self.largest

    def statistic(self, *, below: bool) -> float:
        """Return the statistic of the norm for the batch."""
        return formulas.largest(KINDS[type(self.norm)], self.norm, self.input(), below=below)

    def input(self) -> Tensor:
        """Return the input of the norm for the batch."""
        inputs_seen: list[Tensor] = []
        handle = self.norm.register_forward_pre_hook(lambda module, inputs: inputs_seen.append(inputs[0].detach()))
        buffers = [(buffer, buffer.clone()) for buffer in self.trainer.network.buffers()]
        with torch.no_grad():
            self.trainer.loss(self.batch)
            for buffer, values in buffers:
                buffer.copy_(values)
        handle.remove()
        return inputs_seen[0]


def death_of(grown: Grown) -> Death:
    """Return the death of the next step, which must be in its loss."""
    step = grown.trainer.step(1, grown.batch)
    assert step.bad == "loss"
    return locate_step(grown.trainer, 1, grown.batch, step.bad, step.loss)


def check(run: RunConfig, *, path: ExecutionPath) -> int:
    """Check each norm of a network: if it overflows, the step ends there; just below, the output does not change.

    Return the number of norms.
    """
    names = sites(Trainer(run).network)
    for site in names:
        grown = Grown(run, site, ABOVE, path=path)
        assert grown.overflows, site
        if path is not ExecutionPath.AUTOGRAD:
            assert grown.trainer.choice.path is path
            program = grown.trainer._program(grown.batch)
            assert not (math.isfinite(program(grown.batch)) and math.isfinite(grown.trainer.flat.grad_norm())), site
        layer = layer_of(site, run.depth)
        assert death_of(grown) == Death(step=1, kind="nan", where="activation", tensor=site, layer=layer)
        grown = Grown(run, site, BELOW, path=path)
        assert not grown.overflows, site
        x = grown.input()
        with torch.no_grad():
            y = grown.norm(x)
        assert y.isfinite().all(), site
        if run.dtype == "float32" and (exact := before(grown.norm, x)) is not None:
            assert torch.equal(y, exact), site
    return len(names)


@pytest.mark.parametrize("position", SCHEMES)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    "path",
    [*(pytest.param(path, marks=pytest.mark.slow) for path in (ExecutionPath.AUTOGRAD, ExecutionPath.TAPE)), COMPILED],
)
def test_every_norm_of_every_scheme(path: ExecutionPath, norm: str, position: str) -> None:
    assert check(small(norm=norm, position=position), path=path) > 0 or position == "rezero" or norm not in CAN_OVERFLOW


@pytest.mark.parametrize("qk_norm", sorted(set(QK_NORMS) - {"none"}))
@pytest.mark.parametrize("path", [ExecutionPath.AUTOGRAD, ExecutionPath.TAPE, COMPILED])
def test_every_norm_of_queries_and_keys(qk_norm: str, path: ExecutionPath) -> None:
    for norm in ("none", "rms"):
        assert check(small(qk_norm=qk_norm, norm=norm, final_norm=norm), path=path) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("norm_dtype", ["float32", "same"])
@pytest.mark.parametrize("norm", NORMS)
def test_every_norm_in_16_bits(norm: str, norm_dtype: str, dtype: str) -> None:
    """A float16 stream is too small to overflow in float32, or in float16 if nothing in the norm is squared."""
    if dtype == "float16" and (norm_dtype == "float32" or formulas.DEGREES.get(norm) == 1):
        return
    for qk_norm in QK_NORMS:
        position = "hybrid" if qk_norm == "none" else "subln"
        run = small(norm=norm, qk_norm=qk_norm, position=position, dtype=dtype, norm_dtype=norm_dtype)
        assert check(run, path=ExecutionPath.AUTOGRAD) > 0 or norm not in CAN_OVERFLOW


class TestAStreamThatOverflowsBeforeTheHead:
    """There is no norm before the final one, and each layer increases the residual stream."""

    RUN = RunConfig(norm="none", mixer="linear", depth=8, width=8, hidden=8, heads=2, steps=6, init_gain=10.0)

    @pytest.mark.parametrize("path", [ExecutionPath.AUTOGRAD, ExecutionPath.TAPE, COMPILED])
    @pytest.mark.parametrize("norm", ["ln", "rms", "scale"])
    def test_ends_before_the_first_step(self, norm: str, path: ExecutionPath) -> None:
        training = train(replace(self.RUN, final_norm=norm), path=path)
        death = Death(step=0, kind="nan", where="validation", tensor="final_norm", layer=9)
        assert training.result.death == death

    def test_ends_in_the_first_step_if_evaluation_uses_running_statistics(self) -> None:
        training = train(replace(self.RUN, final_norm="bn"))
        death = Death(step=1, kind="nan", where="activation", tensor="final_norm", layer=9)
        assert training.result.death == death
        assert training.traces.death_layers
        assert training.result.steps_done == 0

    def test_continues_with_dyt(self) -> None:
        """The tanh of large numbers is 1."""
        assert train(replace(self.RUN, final_norm="dyt")).result.death is None

    @pytest.mark.parametrize("path", [ExecutionPath.AUTOGRAD, ExecutionPath.TAPE, COMPILED])
    @pytest.mark.parametrize("norm", ["rms", "scale"])
    def test_ends_during_training(self, norm: str, path: ExecutionPath) -> None:
        run = replace(self.RUN, final_norm=norm, lr=1.0, init_gain=1.0, steps=40)
        death = train(run, path=path).result.death
        assert death is not None
        assert death.step > 1
        assert (death.kind, death.where, death.tensor, death.layer) == ("nan", "activation", "final_norm", 9)

    @pytest.mark.parametrize("norm", ["ln", "rms", "bn", "scale"])
    def test_is_visible_in_a_probe(self, norm: str) -> None:
        rows = inspect(replace(self.RUN, final_norm=norm))
        (size,) = (row.value for row in rows if (row.layer, row.part, row.quantity) == (9, "stream", "rms"))
        assert math.isnan(size)
        assert all(math.isnan(row.value) for row in rows if row.quantity == "update")


@pytest.mark.parametrize("norm", NORMS)
def test_an_infinite_input_is_not_hidden(norm: str) -> None:
    module = make_norm(norm, 4, RunConfig(dyt_alpha=1.0))
    assert module is not None
    assert module(torch.tensor([[1.0, math.inf, 2.0, 3.0], [4.0, 3.0, 1.0, 5.0]]))[0].isnan().any()


def test_layer_norms_variance_can_overflow_with_a_finite_mean() -> None:
    x = torch.tensor([[3e19, -3e19, 3e19, -3e19], [1.0, 2.0, 3.0, 4.0]])
    module = make_norm("ln", 4, RunConfig())
    assert module is not None
    y = module(x)
    assert y[0].isnan().all()
    assert torch.equal(y[1], functional.layer_norm(x, (4,), eps=1e-5)[1])


class TestBatchNormsStatistics:
    def test_stay_non_finite_after_an_overflow(self) -> None:
        grown = Grown(small(norm="bn"), "blocks.1.mixer.before", ABOVE, path=ExecutionPath.TAPE)
        assert death_of(grown).tensor == "blocks.1.mixer.before"
        assert not math.isfinite(grown.trainer.evaluate())
        death = locate_validation(grown.trainer, 1, math.nan)
        assert (death.where, death.tensor) == ("validation", "blocks.1.mixer.before")


class TestFusedAttention:
    """torch's kernel, for 16 bits and long sequences, returns 0 for a token whose logits are NaN or have overflowed."""

    CASES = (("q", math.nan), ("k", math.nan), ("v", math.nan), ("q and k", 3e19))

    @pytest.mark.parametrize(("dtype", "tokens"), [(torch.bfloat16, 5), (torch.bfloat16, 80), (torch.float32, 80)])
    @pytest.mark.parametrize(("where", "value"), CASES)
    def test_nan_is_not_hidden(self, where: str, value: float, dtype: torch.dtype, tokens: int) -> None:
        parts = torch.randn(3, 1, 1, tokens, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
        for part in where.split(" and "):
            parts["qkv".index(part), 0, 0, 2] = value
        wide = parts.double()
        exact = functional.scaled_dot_product_attention(*wide, is_causal=True)
        y = attend(*parts, None)
        assert y[0, 0, 2].isnan().all()
        assert y[0, 0, :2].isfinite().all() or where == "v"
        assert exact.isfinite().all() or math.isnan(value), "in float64 nothing overflows"

    def test_masked_or_negative_overflow_is_ignored_as_in_the_formula(self) -> None:
        q, k, v = torch.randn(3, 1, 1, 80, 4, generator=torch.Generator().manual_seed(0))
        q[0, 0, 2], k[0, 0, 1], k[0, 0, 3:5] = 3e19, -3e19, 3e19
        assert attend(q, k, v, None)[0, 0, :3].isfinite().all()


@pytest.mark.parametrize("path", [ExecutionPath.AUTOGRAD, ExecutionPath.TAPE, COMPILED])
@pytest.mark.parametrize("value", [3e38, -3e38])
def test_a_logit_that_overflows_ends_the_run_regardless_of_its_sign(value: float, path: ExecutionPath) -> None:
    """A logit of minus infinity is a probability of 0, so the loss of other targets stays finite."""
    trainer = Trainer(small(order=1), path=path)
    batch = next(trainer.task.batches(0, 3))
    batch = Batch(batch.inputs_nt, np.zeros_like(batch.targets_nt))
    with torch.no_grad():
        trainer.network.final_norm.weight.zero_()
        trainer.network.final_norm.bias.fill_(2.0)
        trainer.network.head.weight[3] = value
    step = trainer.step(1, batch)
    assert step.bad == "loss"
    death = locate_step(trainer, 1, batch, step.bad, step.loss)
    assert death == Death(step=1, kind="inf", where="activation", tensor="head", layer=2)


class TestOptimizers:
    def grown(self, gradient: float, **keys: object) -> tuple[Trainer, Step]:
        """Return a trainer after a step in which a gradient of the head had this value."""
        trainer = Trainer(small(order=1, lr=1e-2, **keys))
        batch = next(trainer.task.batches(0, 3))
        trainer.gradients = lambda batch: (1.0, self.spoil(trainer, gradient))  # type: ignore[method-assign]
        return trainer, trainer.step(1, batch)

    def spoil(self, trainer: Trainer, gradient: float) -> float:
        trainer.flat.grads.zero_()
        trainer.network.head.weight.grad[0, 0] = gradient
        return trainer.flat.grad_norm()

    @pytest.mark.parametrize("optimizer", OPTIMIZERS)
    @pytest.mark.parametrize("decay", [0.0, 0.1])
    def test_a_second_moment_that_overflows_ends_the_run(self, optimizer: str, decay: float) -> None:
        trainer, step = self.grown(1e25, optimizer=optimizer, weight_decay=decay)
        overflows = optimizer != "sgd"
        assert step.bad == ("optimizer" if overflows else None)
        if overflows:
            death = locate_step(trainer, 1, next(trainer.task.batches(0, 3)), "optimizer", step.loss)
            assert death == Death(step=1, kind="inf", where="optimizer", tensor="head.weight", layer=2)
            assert death.fault == "inf in optimizer"

    @pytest.mark.parametrize("optimizer", ["adam", "adamw"])
    def test_a_second_moment_that_does_not_overflow_continues(self, optimizer: str) -> None:
        """The square of 1e19 fits into float32 after the factor of 1e-3."""
        assert self.grown(1e19, optimizer=optimizer)[1].bad is None

    def test_weight_decay_in_the_gradient_can_overflow_the_second_moment(self) -> None:
        trainer = Trainer(small(order=1, optimizer="adam", weight_decay=1.0, norm="none", final_norm="none"))
        trainer.gradients = lambda batch: (1.0, self.spoil(trainer, 0.0))  # type: ignore[method-assign]
        with torch.no_grad():
            trainer.network.head.weight[0, 0] = 1e25
        assert trainer.step(1, next(trainer.task.batches(0, 3))).bad == "optimizer"

    def test_the_update_that_overflowed_is_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("normexp.training.optimizers.Adam.finite", lambda adam, grad_norm: False)
        result = train(small(order=1, steps=5), path=ExecutionPath.TAPE).result
        assert result.death is not None
        assert (result.death.step, result.death.where, result.steps_done) == (1, "optimizer", 1)

    def test_clipping_does_not_make_large_gradients_zero(self) -> None:
        trainer, step = self.grown(3e38, optimizer="sgd", clip=1e-8, init_gain=0.0)
        assert step.bad is None
        assert float(trainer.network.head.weight.grad[0, 0]) == pytest.approx(1e-8, rel=1e-5)


PLUGIN = """
import torch
from torch import nn
from normexp.schemes import Norm

class L1(nn.Module):
    def forward(self, x):
        return x / (x.abs().mean(-1, keepdim=True) + 1e-5)

class Squares(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)

class Fourth(nn.Module):
    def forward(self, x):
        return x / (x.pow(4).mean(-1, keepdim=True) + 1e-5).pow(0.25)

class Noisy(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
    def forward(self, x):
        y = self.norm(x.reshape(-1, x.shape[-1])).view_as(x)
        return nn.functional.dropout(y, 0.1, self.training)

def row(make):
    return Norm(make=make, help="", source="")

NORMS = {
    "l1": row(lambda width, run: L1()),
    "squares": row(lambda width, run: Squares()),
    "fourth": row(lambda width, run: Fourth()),
    "torch_ln": row(lambda width, run: nn.LayerNorm(width)),
    "torch_rms": row(lambda width, run: nn.RMSNorm(width)),
    "torch_bn": row(lambda width, run: Noisy(width)),
}
"""


class TestNormsOfPlugins:
    @pytest.fixture(autouse=True)
    def _plugin(self) -> Iterator[None]:
        with plugins.using(plugins.Plugin("mine.py", PLUGIN)):
            yield

    @pytest.mark.parametrize(
        ("norm", "size", "overflows"),
        [
            ("l1", 1e30, False),
            ("squares", 3e18, False),
            ("squares", 1e21, True),
            ("fourth", 1e9, False),
            ("fourth", 1e10, True),
            *((f"torch_{norm}", *case) for norm in ("ln", "rms", "bn") for case in ((3e18, False), (1e21, True))),
        ],
    )
    @pytest.mark.parametrize("path", [ExecutionPath.AUTOGRAD, ExecutionPath.TAPE, COMPILED])
    def test_give_nan_if_a_number_inside_overflows(
        self, norm: str, size: float, overflows: bool, path: ExecutionPath
    ) -> None:
        trainer = Trainer(small(norm=norm, position="pre", final_norm="ln"), path=path)
        with torch.no_grad():
            trainer.network.embedding.weight.mul_(size / trainer.network.embedding.weight.abs().max())
            trainer.network.positions.weight.zero_()
            trainer.network.head.weight.mul_(1e-3)
        batch = next(trainer.task.batches(0, 3))
        step = trainer.step(1, batch)
        death = locate_step(trainer, 1, batch, step.bad, step.loss) if step.bad else None
        assert (death is not None and death.tensor == "blocks.1.mixer.before") == overflows
        if death is not None:
            assert death.tensor in ("blocks.1.mixer.before", "final_norm"), "torch's final norm overflows too"

    def test_are_unchanged_by_the_second_call(self) -> None:
        norm = make_norm("torch_bn", 8, small())
        assert norm is not None
        plain = deepcopy(norm)
        plain._forward_hooks.clear()
        x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0)) * 1e12
        outputs, randoms = [], []
        for module in (norm, plain):
            torch.manual_seed(0)
            outputs.append([module(x), module(x), *module.buffers()])
            randoms.append(torch.rand(3))
        assert all(torch.equal(a, b) for a, b in zip(*outputs, strict=True))
        assert torch.equal(*randoms)

    def test_usual_inputs_are_not_checked_twice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("normexp.model.overflow._overflows", None)
        norm = make_norm("squares", 8, small())
        assert norm is not None
        x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
        assert norm(1e9 * x).isfinite().all()
        with pytest.raises(TypeError):
            norm(1e11 * x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_all_finite_is_correct_if_squares_overflow(dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    assert all_finite(torch.tensor([[largest, -largest], [0.0, 1.0]], dtype=dtype))
    for bad in (math.inf, -math.inf, math.nan):
        assert not all_finite(torch.tensor([[largest, bad], [0.0, 1.0]], dtype=dtype))
    assert all_finite(torch.zeros(0, 3, dtype=dtype))
