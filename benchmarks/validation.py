"""Standard errors that the finite validation set gives to the losses of trained networks, and to their differences.

`python -m benchmarks.validation [--depth 12] [--steps 1000]` trains Pre-LN with two seeds and Post-LN with one in each
of the article's settings, and evaluates them on many new sequences of the same task. It prints in nats what 512 of them
would give: the error of a loss, of a loss minus the entropy floor of the same sequences, and of the paired differences
between two seeds and between two placements. `sequences` is the number that these two need for an error of TARGET.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from benchmarks.harness import say
from normexp.config.run import RunConfig
from normexp.data.sources import Tokens
from normexp.data.streams import stream
from normexp.data.tasks import VALIDATION_SEQUENCES, Task
from normexp.training.loop import train

TARGET = 0.003
"""A tenth of the smallest threshold of the article's claims, in nats."""
SEQUENCES, PART = 8192, 256
LOOKUPS: Mapping[str, Any] = MappingProxyType(
    {"task": "lookups", "vocab": 5, "order": 8, "sharpness": 8, "seq_len": 24}
)
SETTINGS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "as written": {"mixer": "linear", "init": "torch", "order": 1},
        "as described": {"mixer": "mean", "init": "torch"},
        "as a Transformer": {"mixer": "attention", "init": "xavier"},
        "as described, lookups": {"mixer": "mean", "init": "torch", **LOOKUPS},
        "as a Transformer, lookups": {"mixer": "attention", "init": "xavier", **LOOKUPS},
    }
)
NETWORKS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "pre": {"position": "pre", "seed": 0},
        "seed": {"position": "pre", "seed": 1},
        "post": {"position": "post", "seed": 0},
    }
)


def losses_n(network: nn.Module, task: Task, tokens_nt: Tokens) -> np.ndarray:
    """Return the mean loss of each sequence of t + 1 tokens, (n,), in nats."""
    parts = []
    with torch.no_grad():
        for part_nt in torch.split(torch.from_numpy(tokens_nt).long(), PART):
            logits_ntv = network(part_nt[:, :-1])[:, task.first :]
            targets_nt = part_nt[:, 1 + task.first :]
            loss_m = cross_entropy(logits_ntv.flatten(0, 1).double(), targets_nt.flatten(), reduction="none")
            parts.append(loss_m.view(targets_nt.shape).mean(1))
    return np.asarray(torch.cat(parts))


def floor_n(task: Task, tokens_nt: Tokens) -> np.ndarray:
    """Return the loss of each sequence under the task's own probabilities, (n,), in nats."""
    likelihood = task.source.likelihood(tokens_nt[:, :-1], tokens_nt[:, 1 + task.first :])
    losses: np.ndarray = np.asarray(-np.log(likelihood)).reshape(len(tokens_nt), -1).mean(1)
    return losses


def error(values_n: np.ndarray) -> float:
    """Return the standard error of a mean over as many sequences as a validation set has."""
    return float(values_n.std(ddof=1)) / math.sqrt(VALIDATION_SEQUENCES)


def measure(setting: str, depth: int, steps: int) -> dict[str, Any]:
    """Train the networks of a setting and return its row."""
    base = {"depth": depth, "norm": "ln", "lr": 1e-3, "steps": steps, **SETTINGS[setting]}
    configs = {name: RunConfig(**base, **keys).canonical() for name, keys in NETWORKS.items()}
    task = Task(configs["pre"])
    tokens_nt = task.source.sample(stream(*task.name, "benchmark"), SEQUENCES, task.config.seq_len + 1)
    by_name = {name: losses_n(train(config).network.eval(), task, tokens_nt) for name, config in configs.items()}
    pre_n = by_name["pre"]
    differences = {name: by_name[name] - pre_n for name in ("seed", "post")}
    worst = max(map(error, differences.values()))
    return {
        "setting": setting,
        "loss": f"{pre_n.mean():.3f}",
        "error of the loss": f"{error(pre_n):.4f}",
        "above the floor": f"{error(pre_n - floor_n(task, tokens_nt)):.4f}",
        "between seeds": f"{error(differences['seed']):.4f}",
        "Post minus Pre": f"{error(differences['post']):.4f}",
        "sequences": math.ceil(VALIDATION_SEQUENCES * (worst / TARGET) ** 2),
    }


def main() -> None:
    """Print a row per setting."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for setting in SETTINGS:
        say(measure(setting, options.depth, options.steps))


if __name__ == "__main__":
    main()
