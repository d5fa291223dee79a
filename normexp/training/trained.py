"""The network that a run ended with: from its stored weights, or by training it again."""

from __future__ import annotations

from itertools import islice

from normexp.paths import ExecutionPath
from normexp.run import RunConfig
from normexp.training.state import seeded
from normexp.training.trainer import Trainer
from normexp.training.weights import network_from


def restore(config: RunConfig, weights: bytes, origin: str) -> Trainer:
    """A trainer with the network of a weights file, which `origin` names in complaints. Raises UserError."""
    _, network = network_from(weights, origin=origin, config=config)
    return Trainer(config, network)


def retrain(config: RunConfig, *, path: ExecutionPath | None = None) -> Trainer:
    """Train the config's network again, without evaluations, to its last step or its death; `path` as Trainer has it.

    The same config gives the same network on the same machine.
    """
    with seeded(config):
        trainer = Trainer(config, path=path)
        batches = trainer.task.batches(config.seed, config.batch)
        for number, batch in enumerate(islice(batches, config.steps), start=1):
            if trainer.step(number, batch).bad is not None:
                break
        return trainer
