"""Ray Tune: python with_ray.py GRID.json RESULTS. A processor a trial, actors kept from trial to trial."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import ray
from ray import tune


def trial(config: dict[str, Any], results: Path) -> None:
    """A trial, in an actor of Ray's: torch is imported there alone, once.

    Its context still names the folder of the actor's first trial, so the curve goes to a folder named by its keys.
    """
    from network import train

    folder = results / f"{config['position']}-{config['lr']:g}"
    train(config, folder, lambda step, val_loss: tune.report({"step": step, "val_loss": val_loss}))


def main() -> None:
    """All points of the grid."""
    asked, results = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]).resolve()
    ray.init(num_cpus=2, include_dashboard=False)
    space = asked["base"] | {key: tune.grid_search(values) for key, values in asked["grid"].items()}
    tuner = tune.Tuner(
        tune.with_resources(tune.with_parameters(trial, results=results), {"cpu": 1}),
        param_space=space,
        tune_config=tune.TuneConfig(metric="val_loss", mode="min", reuse_actors=True),
        run_config=tune.RunConfig(name="sweep", storage_path=str(results), verbose=1),
    )
    if tuner.fit().errors:
        sys.exit("a trial failed")


if __name__ == "__main__":
    main()
