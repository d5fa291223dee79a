"""Print the first gradient of networks without a norm, for three backward passes of attention.

`python examples/fused_attention_network.py`. All three follow the same
forward pass, torch's fused kernel in float32. The exact one is the formula's in float64, at the same q, k and v.
"""

import torch
from fused_attention import formula, fused
from torch.nn.functional import cross_entropy

from normexp.config.run import RunConfig
from normexp.data.tasks import Task
from normexp.model import branches
from normexp.model.network import build

DEPTHS, SEEDS = (20, 30, 40), (0, 1, 2)
BACKWARD = {"exact": (formula, torch.float64), "formula": (formula, torch.float32), "fused": (fused, torch.float32)}


class Attention(torch.autograd.Function):
    """torch's fused attention, with another backward pass."""

    @staticmethod
    def forward(ctx, q, k, v, backward):
        ctx.chosen = backward
        ctx.save_for_backward(q, k, v)
        return fused(q, k, v)

    @staticmethod
    def backward(ctx, dy):
        attend, dtype = ctx.chosen
        leaves = [x.detach().to(dtype).requires_grad_() for x in ctx.saved_tensors]
        with torch.enable_grad():
            y = attend(*leaves)
        return *(dx.to(dy.dtype) for dx in torch.autograd.grad(y, leaves, dy.to(dtype))), None


def first_gradient(depth, seed, backward):
    """Return the magnitude of the first gradient, and the largest logit of the network."""
    run, logits = RunConfig(depth=depth, norm="none", seed=seed), []
    task = Task(run)
    batch = next(task.batches(seed, run.batch))
    tokens, targets = (torch.from_numpy(x).long() for x in (batch.inputs_nt, batch.targets_nt))

    def attend(q, k, v, scale):
        logits.append((q @ k.mT).detach().abs().max().item() / q.shape[-1] ** 0.5)
        return Attention.apply(q, k, v, BACKWARD[backward])

    kept, branches.attend = branches.attend, attend
    try:
        network = build(run)
        predicted = network(tokens)[:, task.first :]
        cross_entropy(predicted.flatten(0, 1), targets[:, task.first :].flatten()).backward()
    finally:
        branches.attend = kept
    sizes = [parameter.grad.double().norm() for parameter in network.parameters() if parameter.grad is not None]
    return torch.stack(sizes).norm().item(), max(logits)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}: magnitude of the first gradient")
    print("depth  seed  largest logit   " + "".join(f"{name:>11}" for name in BACKWARD))
    for depth in DEPTHS:
        for seed in SEEDS:
            sizes, largest = zip(*(first_gradient(depth, seed, name) for name in BACKWARD), strict=True)
            print(f"{depth:5}  {seed:4}  {largest[0]:13.1e}   " + "".join(f"{size:11.3g}" for size in sizes))
