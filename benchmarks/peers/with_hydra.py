"""Hydra's joblib launcher: python with_hydra.py --multirun key=value,value ... hydra.sweep.dir=RESULTS."""

from __future__ import annotations

from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf


@hydra.main(version_base="1.3", config_path=".", config_name="with_hydra")
def main(config: DictConfig) -> float:
    """A job, in a worker process of joblib: torch is imported there alone, once."""
    from network import train

    return train(OmegaConf.to_container(config), Path(HydraConfig.get().runtime.output_dir))


if __name__ == "__main__":
    main()
