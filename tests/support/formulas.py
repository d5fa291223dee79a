"""Formulas of every scheme, norm and mixer in float64, independent of the program's tables and modules."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from normexp.config.run import RunConfig

Parameters = Mapping[str, Tensor]


def norm(kind: str, parameters: Parameters, name: str, x: Tensor, eps: float) -> Tensor:
    """Return the output of a norm; for bn, with batch statistics as in training."""
    if kind == "none":
        return x
    if kind == "dyt":
        inner = torch.tanh(parameters[f"{name}.alpha"] * x)
        return parameters[f"{name}.weight"] * inner + parameters[f"{name}.bias"]
    if kind == "scale":
        length = (x * x).sum(-1, keepdim=True) + x.shape[-1] * eps
        return parameters[f"{name}.gain"] * x / length.sqrt()
    gain = parameters[f"{name}.weight"]
    if kind == "rms":
        return gain * x / ((x * x).mean(-1, keepdim=True) + eps).sqrt()
    axes = (-1,) if kind == "ln" else (0, 1)
    mean = x.mean(axes, keepdim=True)
    var = ((x - mean) ** 2).mean(axes, keepdim=True)
    return gain * (x - mean) / (var + eps).sqrt() + parameters[f"{name}.bias"]


def largest(kind: str, norm: nn.Module, x: Tensor, *, below: bool) -> float:
    """Return the largest number that a norm computes from its input, in float64: for most norms, a sum of squares.

    Implementations overflow at different points. In 16 bits, x² alone may overflow. torch sums BatchNorm's variance in
    float32, or in float64 if the input is not contiguous; then only the running variance overflows. With `below`,
    return the largest number of any implementation, else the largest number of the most robust one.
    """
    wide, rounds = x.detach().double(), x.dtype.itemsize < 4
    if kind == "dyt":
        return float((norm.alpha.detach().double() * wide).abs().max())
    if kind == "bn":
        centred = wide.flatten(0, -2) - wide.flatten(0, -2).mean(0)
        squares = centred.square()
        if rounds and not below:
            return float(squares.max())
        return float((squares.sum(0) if below else norm.momentum * squares.mean(0)).max())
    if kind == "ln":
        wide = wide - wide.mean(-1, keepdim=True)
    return float(wide.square().max() if rounds and not below else wide.square().sum(-1).max())


DEGREES = {"dyt": 1}
"""The power of the input with which `largest` grows, if it is not 2."""
NEVER_OVERFLOW: frozenset[str] = frozenset()
"""Norms that compute no number above the largest element of their input."""


@dataclass
class Here:
    """One branch: its input, the input of the block, its function f, and its norms by site."""

    x: Tensor
    block_input: Tensor
    f: Callable[[Tensor], Tensor]
    at: Callable[[str, Tensor], Tensor]
    layer: int
    depth: int
    branch: str
    alpha: Tensor | None
    run: RunConfig

    def pre(self) -> Tensor:
        return self.x + self.f(self.at("before", self.x))

    def post(self, skip: float = 1.0) -> Tensor:
        return self.at("after", skip * self.x + self.f(self.x))


SCHEMES: Mapping[str, Callable[[Here], Tensor]] = {
    "pre": Here.pre,
    "post": Here.post,
    "sandwich": lambda h: h.x + h.at("output", h.f(h.at("before", h.x))),
    "output": lambda h: h.x + h.at("output", h.f(h.x)),
    "deepnorm": lambda h: h.post(math.sqrt(math.sqrt(2 * h.depth))),
    "glm": lambda h: h.post(math.sqrt(2 * h.depth)),
    "lns": lambda h: h.x + h.f(h.at("before", h.x) / math.sqrt(h.layer)),
    "mix": lambda h: h.post() if h.layer <= h.run.post_share * h.depth else h.pre(),
    "rezero": lambda h: h.x + h.alpha * h.f(h.x),
    "subln": Here.pre,
    "residual_scaled": lambda h: h.x + h.f(h.at("before", h.x)) / math.sqrt(2 * h.depth),
    "hybrid": lambda h: h.post() if h.branch == "mixer" else h.x + h.f(h.x),
    "b2t": lambda h: h.post() if h.branch == "mixer" else h.at("after", h.block_input + h.x + h.f(h.x)),
}
INSIDE = {"subln": "within", "hybrid": "qkv"}
FINAL = {"pre", "sandwich", "output", "glm", "lns", "mix", "subln", "residual_scaled", "hybrid"}


def linear(parameters: Parameters, name: str, x: Tensor) -> Tensor:
    return x @ parameters[f"{name}.weight"].T + parameters[f"{name}.bias"]


def query_key(run: RunConfig, parameters: Parameters, name: str, x_bthk: Tensor) -> Tensor:
    """Return queries or keys after the norm `qk_norm`."""
    if run.qk_norm == "full":
        whole = norm("rms", parameters, f"{name}.norm", x_bthk.flatten(2), run.eps)
        return whole.view_as(x_bthk)
    if run.qk_norm == "l2":
        length = (x_bthk * x_bthk).sum(-1, keepdim=True) + x_bthk.shape[-1] * run.eps
        unit = x_bthk / length.sqrt()
        return unit * parameters.get(f"{name}.gain", torch.ones(()))
    return norm(run.qk_norm, parameters, name, x_bthk, run.eps)


def attention(run: RunConfig, parameters: Parameters, name: str, x: Tensor, inside: Callable) -> Tensor:
    b, t, d = x.shape
    q, k, v = linear(parameters, f"{name}.qkv", x).split(d, dim=-1)
    q, k, v = (inside("qkv", f"{name}.qkv_norms.{at}", part) for at, part in enumerate((q, k, v)))
    q, k, v = (part.view(b, t, run.heads, d // run.heads) for part in (q, k, v))
    q, k = query_key(run, parameters, f"{name}.q_norm", q), query_key(run, parameters, f"{name}.k_norm", k)
    scores = torch.einsum("bihk,bjhk->bhij", q, k) * (1.0 if run.qk_norm == "l2" else (d // run.heads) ** -0.5)
    seen = torch.ones(t, t, dtype=torch.bool).tril()
    scores = scores.masked_fill(~seen, -math.inf)
    weights = torch.exp(scores - scores.amax(-1, keepdim=True))
    mixed = torch.einsum("bhij,bjhk->bihk", weights / weights.sum(-1, keepdim=True), v).reshape(b, t, d)
    return linear(parameters, f"{name}.out", inside("within", f"{name}.within", mixed))


def mixer(run: RunConfig, parameters: Parameters, name: str, x: Tensor, inside: Callable) -> Tensor:
    if run.mixer == "attention":
        return attention(run, parameters, name, x, inside)
    if run.mixer == "mean":
        x = torch.stack([x[:, : t + 1].mean(1) for t in range(x.shape[1])], dim=1)
    return linear(parameters, f"{name}.out", inside("within", f"{name}.within", x))


def ffn(run: RunConfig, parameters: Parameters, name: str, x: Tensor, inside: Callable) -> Tensor:
    hidden = linear(parameters, f"{name}.fc1", x)
    hidden = 0.5 * hidden * (1 + torch.erf(hidden / math.sqrt(2))) if run.activation == "gelu" else hidden.clamp(min=0)
    return linear(parameters, f"{name}.fc2", inside("within", f"{name}.within", hidden))


def logits(run: RunConfig, parameters: Parameters, tokens: Tensor) -> Tensor:
    """Return the logits (b, t, v) of a network with these float64 parameters, in training mode."""
    x = parameters["embedding.weight"][tokens]
    if run.pos_embed == "learned":
        x = x + parameters["positions.weight"][: tokens.shape[1]]

    def inside(door: str, name: str, values: Tensor) -> Tensor:
        return norm(run.norm, parameters, name, values, run.eps) if INSIDE.get(run.position) == door else values

    for layer in range(1, run.depth + 1):
        block_input = x
        for branch, function in (("mixer", mixer), ("ffn", ffn)):
            name = f"blocks.{layer}.{branch}"
            here = Here(
                x=x,
                block_input=block_input,
                f=lambda values, name=name, function=function: function(run, parameters, f"{name}.f", values, inside),
                at=lambda door, values, name=name: norm(run.norm, parameters, f"{name}.{door}", values, run.eps),
                layer=layer,
                depth=run.depth,
                branch=branch,
                run=run,
                alpha=parameters.get(f"blocks.{layer}.mixer.branch_out.factor"),
            )
            x = SCHEMES[run.position](here)
    return norm(run.final_norm, parameters, "final_norm", x, run.eps) @ parameters["head.weight"].T
