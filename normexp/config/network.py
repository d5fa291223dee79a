"""Read one network from the command line: `--config key=value`, repeated, or `--config FILE.yaml`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from normexp.config import feasibility, grid, sweep_file
from normexp.config.overrides import Override, read_overrides
from normexp.config.run import RunConfig
from normexp.config.yaml_file import Notes
from normexp.errors import UserError
from normexp.schemes.network_config import Value

SUFFIXES = (".yaml", ".yml")


def read_network(texts: Sequence[str]) -> RunConfig | None:
    """Return the config that the texts describe, or None without texts. Raises UserError with all errors at once."""
    if not texts:
        return None
    files = [text for text in texts if Path(text).suffix in SUFFIXES]
    pairs = [text for text in texts if text not in files]
    if len(files) > 1:
        raise UserError(f"--config: give one file, not {' and '.join(files)}")
    return _from_file(files[0], pairs) if files else _from_pairs(pairs)


def _from_file(path: str, pairs: Sequence[str]) -> RunConfig:
    """Return the only run of a config file."""
    configs = grid.plan(sweep_file.load(Path(path), pairs)).configs
    if len(configs) != 1:
        raise UserError(f"--config {path}: has {len(configs)} runs: select one with --config key=value for its axes")
    return next(iter(configs.values()))


def _from_pairs(pairs: Sequence[str]) -> RunConfig:
    notes = Notes()
    values, _ = one_network(read_overrides(pairs, notes), notes)
    notes.fail_if_any()
    try:
        run = RunConfig(**values)  # type: ignore[arg-type]
    except ValueError as fault:
        raise UserError(*(f"--config: {line}" for line in str(fault).splitlines())) from fault
    feasibility.refuse([run], "--config")
    return run


def one_network(
    overrides: Iterable[Override], notes: Notes, *, several: str = ""
) -> tuple[dict[str, Value], Sequence[Value]]:
    """Return the values of overrides that describe one network, and those of the key `several`, which may have many."""
    values: dict[str, Value] = {}
    many: list[Value] = []
    for override in overrides:
        if override.axis is None:
            notes.fault(f"{override.origin}: a single network has no {override.key}: remove it")
        elif override.key == several:
            many = list(override.axis)
        elif override.axis.count > 1:
            why = f"only {several} takes several values here" if several else "a single network has one value"
            notes.fault(f"{override.origin}: {why}: write {override.key}=value")
        else:
            values[override.key] = override.axis.value(0)
    return values, many
