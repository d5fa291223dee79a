"""The tables of optimizers and of learning-rate schedules."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch.optim import Optimizer

from normexp.run import RunConfig
from normexp.training.flat import FlatParameters

Groups = list[dict[str, object]]


def _adam(groups: Groups, config: RunConfig) -> Optimizer:
    return torch.optim.Adam(groups, lr=config.lr, betas=(config.beta1, config.beta2), fused=True)


def _adamw(groups: Groups, config: RunConfig) -> Optimizer:
    return torch.optim.AdamW(groups, lr=config.lr, betas=(config.beta1, config.beta2), fused=True)


def _sgd(groups: Groups, config: RunConfig) -> Optimizer:
    return torch.optim.SGD(groups, lr=config.lr)


OPTIMIZERS: Mapping[str, Callable[[Groups, RunConfig], Optimizer]] = MappingProxyType(
    {"adam": _adam, "adamw": _adamw, "sgd": _sgd}
)


def make_optimizer(config: RunConfig, flat: FlatParameters) -> Optimizer:
    """The config's optimizer over the flat parameters; `weight_decay` falls on matrices alone."""
    decays = (config.weight_decay, 0.0)
    groups: Groups = [
        {"params": [part], "weight_decay": decay} for part, decay in zip(flat.groups, decays, strict=True)
    ]
    return OPTIMIZERS[config.optimizer](groups, config)


def _cosine(update: int, config: RunConfig) -> float:
    rest = max(1, config.steps - config.warmup)
    return 0.5 * (1 + math.cos(math.pi * max(0, update - 1 - config.warmup) / rest))


def _inverse_sqrt(update: int, config: RunConfig) -> float:
    start = max(1, config.warmup)
    return math.sqrt(start / max(start, update))


SCHEDULES: Mapping[str, Callable[[int, RunConfig], float]] = MappingProxyType(
    {"constant": lambda update, config: 1.0, "cosine": _cosine, "inverse_sqrt": _inverse_sqrt}
)


def rate(update: int, config: RunConfig) -> float:
    """The learning rate of an update, counted from 1: lr * min(1, update / warmup) times the schedule."""
    warm = min(1.0, update / config.warmup) if config.warmup else 1.0
    return config.lr * warm * SCHEDULES[config.schedule](update, config)
