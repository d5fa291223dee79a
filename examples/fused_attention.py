"""Print the errors of attention's gradients on CPU, float32 against float64, by the size of its logits.

`python examples/fused_attention.py`; docs/fused-attention.md explains the table. Each number is the largest of three
seeds. Errors are relative to the exact gradient, in the L2 norm.
"""

import math

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

FACTORS, SEEDS, SHAPES = (1, 10, 100, 316, 1000, 10_000), (0, 1, 2), ((2, 4, 16, 16), (32, 4, 16, 16))


def formula(q, k, v):
    later = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1)
    return (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(later, -math.inf).softmax(-1) @ v


def fused(q, k, v):
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def math_backend(q, k, v):
    with sdpa_kernel(SDPBackend.MATH):
        return scaled_dot_product_attention(q, k, v, is_causal=True)


def inputs(shape, factor, keys, seed):
    """Return q, k, v and dy. Logits are about factor² large; with `similar` keys, those of a query differ by a few."""
    q, k, v, dy = torch.randn(4, *shape, generator=torch.Generator().manual_seed(seed))
    if keys == "similar":
        k = k[..., :1, :] + 4 * k / factor**2
    return factor * q, factor * k, v, dy


def gradients(attend, q, k, v, dy):
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    return torch.autograd.grad(attend(*leaves), leaves, dy)


def weight_sum(attend, q, k, v):
    """Return the largest sum of a query's weights in the backward pass, which should be 1: dv holds them if dy = 1."""
    return gradients(attend, q, k, v, torch.eye(q.shape[-1]).expand_as(q))[2].sum(-2).max().item()


def measure(attend, shape, factor, keys):
    """Return the magnitude of dq, the errors of dq, dk and dv, and the sum of weights: the largest over seeds."""
    found = []
    for seed in SEEDS:
        tensors = inputs(shape, factor, keys, seed)
        exact, computed = gradients(formula, *(x.double() for x in tensors)), gradients(attend, *tensors)
        errors = [((a - b).norm() / b.norm()).item() for a, b in zip(computed, exact, strict=True)]
        found.append([computed[0].norm().item(), *errors, weight_sum(attend, *tensors[:3])])
    return [max(column) for column in zip(*found, strict=True)]


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}")
    for keys in ("independent", "similar"):
        for shape in SHAPES:
            print(f"{keys} keys, {shape}".ljust(36), "     |dq|   errors of dq, dk and dv       weights")
            for factor in FACTORS:
                for attend in (fused, math_backend, formula):
                    numbers = "".join(f"{number:10.1e}" for number in measure(attend, shape, factor, keys))
                    print(f"  queries and keys × {factor:<6} {attend.__name__:12}{numbers}")
