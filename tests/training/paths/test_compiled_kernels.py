"""Each kernel against its formula in float64: its error is at most 1.5 times that of ATen in float32."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from kernels import call, needs_compiler, numbers
from torch import Tensor
from torch.nn import functional as F

from normexp.training.paths.compiled.library import load
from normexp.training.paths.compiled.program import LANES

pytestmark = needs_compiler

ALLOWED = 1.5
DRAWS = 8
ROUNDING = 2.0**-24
"""Half of the spacing of float32 numbers near 1: the error of correct rounding, relative to the largest value."""
SHAPES = [(512, 64), (512, 128), (48, 16), (33, 37), (7, 5), (130, 200)]
Formula = Callable[..., Tensor]


def errors(results: Sequence[Tensor], wanted: Sequence[Tensor]) -> list[float]:
    """Return the root mean square of the differences, but at least a fraction of a rounding of the largest value."""
    return [
        math.hypot(float((a.double() - b).square().mean().sqrt()), ROUNDING / 4 * float(b.abs().max()))
        for a, b in zip(results, wanted, strict=True)
    ]


def by_autograd(formula: Formula, dtype: torch.dtype, upstream: Tensor, *inputs: Tensor) -> list[Tensor]:
    """Return the value, and the gradient of each input."""
    leaves = [x.to(dtype).requires_grad_() for x in inputs]
    y = formula(*leaves)
    return [y.detach(), *torch.autograd.grad((y * upstream.to(dtype)).sum(), leaves)]


Errors = tuple[list[float], list[float]]
"""The errors of the kernel and of ATen, for a value and its gradients."""


def judge(formula: Formula, upstream: Tensor, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Errors:
    """Return the errors of the results of a kernel."""
    wanted = by_autograd(formula, torch.float64, upstream, *inputs)
    return errors(results, wanted), errors(by_autograd(formula, torch.float32, upstream, *inputs), wanted)


def check(attempt: Callable[[int], Errors]) -> None:
    """Assert that no error is too large. Errors are pooled over several seeds, since a single one is random."""
    attempts = [attempt(10 * draw) for draw in range(DRAWS)]
    ours, theirs = (
        [math.hypot(*values) for values in zip(*sides, strict=True)] for sides in zip(*attempts, strict=True)
    )
    assert all(a <= ALLOWED * b for a, b in zip(ours, theirs, strict=True)), (ours, theirs)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["layer_norm", "rms_norm", "scale_norm", "unit_length"])
def test_norms(kind: str, shape: tuple[int, int]) -> None:
    def attempt(draw: int) -> Errors:
        n, d = shape
        x, g, w, b = (
            3 * numbers(n, d, seed=draw) + 1,
            numbers(n, d, seed=draw + 1),
            numbers(d, seed=draw + 2),
            numbers(d, seed=draw + 3),
        )
        y, gx, mean, inverse, gw, gb = (torch.empty(*size) for size in ((n, d), (n, d), (n,), (n,), (d,), (d,)))
        eps, one, floor = 1e-5, torch.tensor([1.7]), d * 1e-5
        formula: Formula
        if kind == "layer_norm":
            slots, divisor, formula = (w, b, mean, inverse, eps), d, lambda x, w, b: F.layer_norm(x, (d,), w, b, eps)
            inputs, grads = [x, w, b], (gw, gb)
        elif kind == "rms_norm":
            slots, divisor, formula = (w, None, None, inverse, eps), d, lambda x, w: F.rms_norm(x, (d,), w, eps)
            inputs, grads = [x, w], (gw,)
        else:
            gain = one if kind == "scale_norm" else None
            slots, divisor = (gain, None, None, inverse, floor), 1
            formula = lambda x, *g: (g[0] * x if g else x) * torch.rsqrt(x.square().sum(-1, keepdim=True) + floor)  # noqa: E731
            inputs, grads = ([x, one], (torch.empty(1),)) if gain is not None else ([x], ())
        call(kind, n, 1, d, x, d, y, d, *slots, float(divisor))
        padded = (*grads, None, None)[:2]
        call(f"{kind}_back", n, 1, d, g, d, x, d, slots[0], slots[2], inverse, None, gx, d, *padded, float(divisor))
        return judge(formula, g, inputs, [y, gx, *grads])

    check(attempt)


@pytest.mark.parametrize("shape", SHAPES)
def test_dyt(shape: tuple[int, int]) -> None:
    def attempt(draw: int) -> Errors:
        n, d = shape
        x, g, w, b, a = (
            2 * numbers(n, d, seed=draw),
            numbers(n, d, seed=draw + 1),
            numbers(d, seed=draw + 2),
            numbers(d, seed=draw + 3),
            torch.tensor([0.6]),
        )
        y, tanh, gx, gw, gb, ga = (torch.empty(*size) for size in ((n, d), (n, d), (n, d), (d,), (d,), (1,)))
        call("dyt", n, d, x, d, y, d, w, b, a, tanh)
        call("dyt_back", n, d, g, d, x, d, w, a, tanh, None, gx, d, gw, gb, ga)
        return judge(lambda x, w, b, a: w * torch.tanh(a * x) + b, g, [x, w, b, a], [y, gx, gw, gb, ga])

    check(attempt)


@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm(shape: tuple[int, int]) -> None:
    def attempt(draw: int) -> Errors:
        n, d = shape
        x, g, w, b = (
            3 * numbers(n, d, seed=draw) + 1,
            numbers(n, d, seed=draw + 1),
            numbers(d, seed=draw + 2),
            numbers(d, seed=draw + 3),
        )
        y, gx, mean, inverse, gw, gb = (torch.empty(*size) for size in ((n, d), (n, d), (d,), (d,), (d,), (d,)))
        moved, wanted = (torch.zeros(d), torch.ones(d)), (torch.zeros(d), torch.ones(d))
        counted = torch.zeros((), dtype=torch.long)
        call("batch_norm", n, d, x, d, y, d, w, b, mean, inverse, 1e-5, *moved, 0.1, counted)
        call("batch_norm_back", n, d, g, d, x, d, w, mean, inverse, None, gx, d, gw, gb)
        judged = judge(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), g, [x, w, b], [y, gx, gw, gb])
        F.batch_norm(x, *wanted, w, b, training=True, momentum=0.1)
        assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-7) for a, b in zip(moved, wanted, strict=True))
        assert counted == 1
        return judged

    check(attempt)


@pytest.mark.parametrize("name", ["gelu", "relu"])
def test_activations(name: str) -> None:
    x, g = torch.cat([torch.linspace(-9, 9, 4099), numbers(4096)]), numbers(8195, seed=1)
    y, kept, gx = x.clone(), torch.empty_like(x), torch.empty_like(x)
    call(name, x.numel(), x, y, kept)
    call("times_kept", 1, x.numel(), g, kept, gx, None)
    check(lambda draw: judge(getattr(F, name), g, [x], [y, gx]))
    in_place = x.clone()
    call(name, x.numel(), in_place, y, in_place)
    assert torch.equal(in_place, kept)


@pytest.mark.parametrize("size", [0.3, 1.0, 5.0])
@pytest.mark.parametrize(
    ("tokens", "heads", "features"), [(16, 4, 16), (16, 1, 64), (64, 2, 32), (5, 3, 4), (33, 2, 20)]
)
def test_attention(tokens: int, heads: int, features: int, size: float) -> None:
    def attempt(draw: int) -> Errors:
        batch, d, scale = 4, heads * features, 1 / math.sqrt(features)
        n, padded, wide = batch * tokens, *(-(-count // 16) * 16 for count in (tokens, features))
        qkv, g = numbers(n, 3 * d, size=size, seed=draw), numbers(n, d, seed=draw + 1)
        y, shares, grads, sums = (
            torch.empty(n, d),
            torch.empty(batch * heads, padded, padded),
            torch.empty(n, 3 * d),
            torch.empty(3 * d),
        )
        work, sizes = torch.empty(7, padded, wide), (batch, tokens, heads, features)
        parts, into = ([part[:, i * d : (i + 1) * d] for i in range(3)] for part in (qkv, grads))
        where, there = ([slot for part in three for slot in (part, 3 * d)] for three in (parts, into))
        call("attention", *sizes, *where, y, d, shares, scale, work)
        call("attention_back", *sizes, *where, g, d, shares, scale, *there, sums, work)

        def formula(qkv: Tensor) -> Tensor:
            q, k, v = (part.view(batch, tokens, heads, features).transpose(1, 2) for part in qkv.chunk(3, 1))
            later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
            logits = (q @ k.transpose(-2, -1) * scale).masked_fill(later, -math.inf)
            return (logits.softmax(-1) @ v).transpose(1, 2).reshape(n, d)

        judged = judge(formula, g, [qkv], [y, grads])
        assert torch.allclose(sums, grads.sum(0), rtol=1e-5, atol=1e-5 * float(grads.abs().sum(0).max()))
        return judged

    check(attempt)


@pytest.mark.parametrize(
    ("m", "n", "k"), [(512, 192, 64), (192, 64, 512), (64, 128, 512), (13, 37, 9), (5, 1, 700), (12, 48, 1)]
)
@pytest.mark.parametrize("by_rows", [False, True])
def test_products(m: int, n: int, k: int, by_rows: bool) -> None:
    if load().functions.lanes() < LANES:
        pytest.skip("products use ATen here")
    a, b, bias, skip = numbers(m, k), numbers(k, n, seed=1), numbers(n, seed=2), numbers(m, n, seed=3)
    stored, out = a if by_rows else a.t().contiguous(), torch.empty(m, n)
    steps = (k, 1) if by_rows else (1, m)
    for added in (None, bias), (skip, None), (skip, bias):
        call("product", m, out, stored, b, added[1], added[0], n, k, n, n, *steps)
        wanted, theirs = a.double() @ b.double(), a @ b
        for part in added:
            if part is not None:
                wanted, theirs = wanted + part.double(), theirs + part
        (ours,), (aten,) = errors([out], [wanted]), errors([theirs], [wanted])
        assert ours <= ALLOWED * aten


@pytest.mark.parametrize("shape", [(64, 192), (16, 16), (37, 9), (1, 50), (50, 1)])
def test_transposed(shape: tuple[int, int]) -> None:
    x, y = numbers(*shape), torch.empty(*shape[::-1])
    call("transposed", x, y, *shape)
    assert torch.equal(y, x.t())


@pytest.mark.parametrize("shape", SHAPES)
def test_sums(shape: tuple[int, int]) -> None:
    x, y, out, one = numbers(*shape), numbers(*shape, seed=1), torch.empty(shape[1]), torch.empty(1)
    call("column_sums", *shape, x, out)
    call("dot", x.numel(), x, y, one)
    wanted = [x.double().sum(0), (x.double() * y.double()).sum()[None]]
    theirs = errors([x.sum(0), torch.dot(x.view(-1), y.view(-1))[None]], wanted)
    ours = errors([out, one], wanted)
    assert all(a <= ALLOWED * b for a, b in zip(ours, theirs, strict=True)), (ours, theirs)


@pytest.mark.parametrize("vocab", [64, 16, 37, 2])
@pytest.mark.parametrize("size", [1.0, 30.0, 1e4])
def test_cross_entropy(vocab: int, size: float) -> None:
    logits, targets = numbers(448, vocab, size=size), torch.arange(448) % vocab
    grad, loss = torch.empty(448, vocab), torch.empty(1, dtype=torch.float64)
    call("cross_entropy", 448, vocab, logits, targets, grad, loss)
    check(lambda draw: judge(lambda x: F.cross_entropy(x, targets)[None], torch.ones(1), [logits], [loss, grad]))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 15, 16, 36])
def test_non_finite_values_are_passed_on(bad: float, place: int) -> None:
    """Checks every element-wise kernel, inside a full vector and in the remainder."""
    x, y, kept = numbers(37), torch.empty(37), torch.empty(37)
    x[place] = bad
    for name in ("gelu", "relu"):
        call(name, 37, x, y, kept)
        wanted = getattr(F, name)(x)
        assert torch.equal(y.isfinite(), wanted.isfinite()) or bad == -math.inf
        assert y.isnan()[place] == (bad != bad) or name == "gelu"
    call("scaled", 37, x, None, y, 2.0)
    assert torch.equal(y.isfinite(), x.isfinite())
    mean, inverse, w, b = torch.empty(1), torch.empty(1), torch.ones(37), torch.zeros(37)
    call("layer_norm", 1, 1, 37, x, 37, y, 37, w, b, mean, inverse, 1e-5, 37.0)
    assert y.isnan().any()
    grad, loss = torch.empty(37), torch.empty(1, dtype=torch.float64)
    call("cross_entropy", 1, 37, x, torch.tensor([1]), grad, loss)
    if bad != -math.inf:
        assert not loss.isfinite()


@pytest.mark.parametrize("size", [1e15, 1e19, 1e30])
@pytest.mark.parametrize("kind", ["layer_norm", "rms_norm", "scale_norm", "unit_length"])
def test_a_norm_whose_statistic_nearly_overflows_gives_nan(kind: str, size: float) -> None:
    """A finite output where autograd overflows would hide it."""
    x, y, mean, inverse, w = (
        numbers(1, 64, size=size),
        torch.zeros(1, 64),
        torch.empty(1),
        torch.empty(1),
        torch.ones(64),
    )
    bias = torch.zeros(64) if kind == "layer_norm" else None
    call(kind, 1, 1, 64, x, 64, y, 64, w, bias, mean, inverse, 1e-5, 64.0)
    assert y.isnan().all()
