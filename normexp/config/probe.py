"""The options and overrides of `normexp probe`, checked: every complaint at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from normexp.config import grid, sweepfile
from normexp.config.overrides import read_overrides, slug
from normexp.config.yamlfile import Notes, nearest
from normexp.errors import UserError
from normexp.keys import Value
from normexp.labels import heading, plural
from normexp.plan import SEED, Plan, Point
from normexp.probed import QUANTITIES
from normexp.run import KEYS

NAME = "probe"
SEEDS = 3
ALWAYS_TOLD = ("depth", "norm")
MOST = 500
"""Networks and seeds of one probe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Networks by name, each with its points (one a seed); what they have in common; the folder for what is found."""

    networks: Mapping[str, Sequence[Point]]
    told: str
    folder: str
    warnings: tuple[str, ...] = ()


def _wrong_quantity(quantity: str | None) -> list[str]:
    if quantity is None or quantity in QUANTITIES:
        return []
    return [f"--quantity {quantity}: {nearest(quantity, QUANTITIES)}"]


def check_after(overrides: Sequence[str], seeds: int | None, quantity: str | None) -> None:
    """Raise UserError for what does not go with a stored run, and for an unknown quantity."""
    complaints = _wrong_quantity(quantity)
    if overrides:
        complaints.append(f"--after probes a run as it is: leave out {' '.join(overrides)}")
    if seeds is not None:
        complaints.append("--after probes one run, whose seed is its own: leave out --seeds")
    if complaints:
        raise UserError(*complaints)


def read(overrides: Sequence[str], seeds: int | None, quantity: str | None) -> Request:
    """Overrides and options as they were typed. Raises UserError with every complaint."""
    notes = Notes()
    for complaint in _wrong_quantity(quantity):
        notes.fault(complaint)
    changes = read_overrides(overrides, notes)
    for change in changes:
        if change.axis is None:
            notes.fault(f"{change.origin}: a probe has no {change.key}: leave it out")
        elif change.key == SEED and seeds is not None:
            notes.fault(f"{change.origin}: seed is given beside --seeds: keep one")
    notes.fail_if_any()
    source = f"grid: {{seed: {list(range(seeds or SEEDS))}}}"
    sweep = sweepfile.parse(source, origin=NAME, stem=NAME, overrides=overrides)
    runs = grid.count(sweep).points
    if runs > MOST:
        raise UserError(f"{plural(runs, 'network')}, seeds included, are more than {MOST}: give fewer values")
    plan = grid.plan(sweep)
    more = [f"seeds={seeds}"] if seeds not in (None, SEEDS) else []
    given = {change.key: change.axis for change in changes if change.axis is not None}
    fixed = {key: axis.value(0) for key, axis in given.items() if len(set(axis)) == 1 and key != SEED}
    common = {key: KEYS[key].default for key in ALWAYS_TOLD if key not in plan.axes} | fixed
    told = heading(tuple(common), tuple(common.values()))
    return Request(networks=_networks(plan, fixed), told=told, folder=sweep.folder + slug(more), warnings=plan.warnings)


def _networks(plan: Plan, fixed: Mapping[str, Value]) -> dict[str, list[Point]]:
    """Points by the name of their network: the axes that vary, or norm and position."""
    varying = [key for key in plan.cell_axes if key not in fixed]
    found, labels = dict[str, list[Point]](), plan.labels
    for point in plan.points:
        values = {key: point.values[key] for key in varying}
        values = values or {key: getattr(point.config, key) for key in ("norm", "position")}
        found.setdefault(heading(tuple(values), tuple(values.values()), labels), []).append(point)
    return found
