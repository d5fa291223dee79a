"""RMSNorm has torch's values and gradients, with the fast kernel and without it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from normexp.model import rms_norm as rmsnorm
from normexp.model.rms_norm import RMSNorm, rms_norm

TOLERANCES = {torch.float32: 2e-6, torch.float64: 1e-12}


@pytest.fixture
def without_kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Remove the kernel from torch."""

    def gone(*_: object) -> None:
        raise RuntimeError("no such operator")

    monkeypatch.setattr(torch.ops.aten.native_layer_norm_backward, "default", gone)
    rmsnorm.works.cache_clear()
    yield
    monkeypatch.undo()
    rmsnorm.works.cache_clear()


def example(shape: tuple[int, ...], dtype: torch.dtype, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """Return input, gain and upstream gradient. The gain is not near 1, and the input has a mean."""
    generator = torch.Generator().manual_seed(0)
    x, upstream = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    weight = torch.randn(shape[-1], generator=generator, dtype=torch.float64)
    return (scale * (x + 0.5)).to(dtype), weight.to(dtype), upstream.to(dtype)


def outcome(norm: object, x: Tensor, weight: Tensor, upstream: Tensor, eps: float = 1e-5) -> list[Tensor]:
    """Return values and both gradients."""
    x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
    y = norm(x, weight, eps)  # type: ignore[operator]
    return [y.detach(), *torch.autograd.grad(y, (x, weight), upstream)]


def torchs(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return functional.rms_norm(x, weight.shape, weight, eps)


def agree(actual: list[Tensor], wanted: list[Tensor], inputs: tuple[Tensor, ...], tolerance: float) -> None:
    """Compare with a tolerance relative to the largest term, since terms may cancel, as with a single feature."""
    x, weight, upstream = (tensor.double() for tensor in inputs)
    terms = (weight, upstream * weight / (x.square().mean(-1, keepdim=True).sqrt() + 1e-30), upstream.sum(0))
    for a, b, term in zip(actual, wanted, terms, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        size = float(term.abs().max()) if term.numel() else 0.0
        assert torch.allclose(a, b, rtol=tolerance, atol=tolerance * size)


def used_kernel(x: Tensor, weight: Tensor) -> bool:
    return "_Fast" in type(rms_norm(x.requires_grad_(), weight, 1e-5).grad_fn).__name__


@pytest.mark.parametrize("shape", [(5,), (4, 7), (2, 3, 5), (2, 2, 3, 1)])
def test_the_gradient_is_the_derivative(shape: tuple[int, ...]) -> None:
    x, weight, _ = example(shape, torch.float64)
    inputs = (x.requires_grad_(), weight.requires_grad_())
    assert used_kernel(*inputs)
    assert torch.autograd.gradcheck(lambda a, b: rms_norm(a, b, 0.01), inputs)
    assert torch.autograd.gradgradcheck(lambda a, b: rms_norm(a, b, 0.01), inputs)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shape", [(512, 64), (32, 16, 128), (3, 1024), (64,), (7, 1)])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_it_agrees_with_torch(dtype: torch.dtype, shape: tuple[int, ...], scale: float) -> None:
    inputs = example(shape, dtype, scale)
    wanted = [tensor.to(dtype) for tensor in outcome(torchs, *(tensor.double() for tensor in inputs))]
    agree(outcome(rms_norm, *inputs), wanted, inputs, TOLERANCES[dtype])


def test_it_agrees_with_its_formula() -> None:
    x, weight, _ = example((3, 5), torch.float64)
    expected = weight * x / torch.sqrt((x**2).mean(-1, keepdim=True) + 0.3)
    assert torch.allclose(rms_norm(x, weight, 0.3), expected, rtol=1e-14)
    assert torch.equal(rms_norm(torch.zeros(2, 5), torch.ones(5), 1e-5), torch.zeros(2, 5))


@given(
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    eps=st.sampled_from([0.0, 1e-8, 1e-5, 1.0]),
)
@settings(max_examples=60, deadline=None)
def test_any_shape(shape: tuple[int, ...], scale: float, eps: float) -> None:
    inputs = example(shape, torch.float64, scale)
    assert used_kernel(inputs[0].clone(), inputs[1])
    agree(outcome(rms_norm, *inputs, eps), outcome(torchs, *inputs, eps), inputs, 1e-12)


def test_strided_input_and_gradient() -> None:
    x, weight, upstream = example((4, 3, 6), torch.float64)
    strided, strided_upstream = (tensor.permute(2, 1, 0).contiguous().permute(2, 1, 0) for tensor in (x, upstream))
    assert not strided.is_contiguous()
    wanted = outcome(torchs, x, weight, upstream)
    agree(outcome(rms_norm, strided, weight, strided_upstream), wanted, (x, weight, upstream), 1e-12)
    expanded = torch.ones((), dtype=torch.float64).expand(4, 3, 6)
    agree(outcome(rms_norm, x, weight, expanded), outcome(torchs, x, weight, expanded), (x, weight, expanded), 1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_uses_torchs_norm(dtype: torch.dtype) -> None:
    inputs = example((4, 8), dtype)
    assert not used_kernel(inputs[0].clone(), inputs[1])
    agree(outcome(rms_norm, *inputs), outcome(torchs, *inputs), inputs, 0.0)


def test_no_rows_no_grad_and_inference() -> None:
    inputs = example((0, 8), torch.float32)
    agree(outcome(rms_norm, *inputs), outcome(torchs, *inputs), inputs, 0.0)
    x, weight, _ = example((4, 8), torch.float32)
    rmsnorm.works.cache_clear()
    with torch.inference_mode():
        inferred = rms_norm(x, weight, 1e-5)
    with torch.no_grad():
        quiet = rms_norm(x, weight.requires_grad_(), 1e-5)
    assert rmsnorm.works(torch.float32)
    assert not quiet.requires_grad
    assert torch.equal(quiet, inferred)
    assert torch.equal(quiet, rms_norm(x, weight, 1e-5))


@pytest.mark.parametrize("eps", [1e-5, 0.0])
def test_squares_that_overflow_give_nan_instead_of_zeros(eps: float) -> None:
    inputs = example((4, 8), torch.float32, 1e25)
    assert (outcome(torchs, *inputs, eps)[0] == 0).all()
    for output in (*outcome(rms_norm, *inputs, eps), rmsnorm.plain(*inputs[:2], eps)):
        assert output.isnan().all()


def test_a_single_gradient() -> None:
    x, weight, upstream = example((4, 8), torch.float64)
    _, x_grad, weight_grad = outcome(torchs, x, weight, upstream)
    (alone,) = torch.autograd.grad(rms_norm(x.requires_grad_(), weight, 1e-5), x, upstream)
    assert torch.allclose(alone, x_grad)
    (alone,) = torch.autograd.grad(rms_norm(x.detach(), weight.requires_grad_(), 1e-5), weight, upstream)
    assert torch.allclose(alone, weight_grad)


@pytest.mark.usefixtures("without_kernel")
def test_without_the_kernel_torchs_norm_is_used() -> None:
    assert not rmsnorm.works(torch.float32)
    inputs = example((4, 8), torch.float32)
    assert not used_kernel(inputs[0].clone(), inputs[1])
    agree(outcome(rms_norm, *inputs), outcome(torchs, *inputs), inputs, 0.0)


def test_a_kernel_that_disagrees_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = torch.ops.aten.native_layer_norm_backward
    kernel = operator.default

    def off(*arguments: object) -> tuple[Tensor, Tensor, None]:
        x_grad, weight_grad, _ = kernel(*arguments)
        return x_grad * 1.001, weight_grad, None

    rmsnorm.works.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(operator, "default", off)
        assert not rmsnorm.works(torch.float32)
    rmsnorm.works.cache_clear()
    assert rmsnorm.works(torch.float32)


def test_the_module_can_replace_torchs() -> None:
    ours, theirs = RMSNorm(8, eps=0.01), nn.RMSNorm(8, eps=0.01)
    theirs.weight.data.normal_(generator=torch.Generator().manual_seed(1))
    ours.load_state_dict(theirs.state_dict())
    x, _, _ = example((3, 8), torch.float32)
    assert list(dict(ours.named_parameters())) == ["weight"]
    assert ours.eps == 0.01
    assert torch.allclose(deepcopy(ours)(x), theirs(x), rtol=1e-6)
    with pytest.raises(RuntimeError, match="normalized_shape"):
        ours(torch.zeros(3, 7))


@pytest.mark.parametrize(("x_needs", "gain_needs"), [(True, False), (False, True), (True, True)])
def test_second_derivatives(x_needs: bool, gain_needs: bool) -> None:
    grads = []
    for norm in (RMSNorm(4, 1e-5).double(), nn.RMSNorm(4, eps=1e-5).double()):
        norm.weight.requires_grad_(gain_needs)
        x = torch.linspace(-1, 2, 12, dtype=torch.float64).view(3, 4).requires_grad_(x_needs)
        wanted = [tensor for tensor in (x, norm.weight) if tensor.requires_grad]
        first = torch.autograd.grad(norm(x).pow(3).sum(), wanted, create_graph=True)
        grads.append(torch.autograd.grad(sum(grad.square().sum() for grad in first), wanted))
    assert all(torch.allclose(ours, theirs) for ours, theirs in zip(*grads, strict=True))
