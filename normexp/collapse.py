"""What is trained to see whether a network collapses: itself, and its normalized twins."""

from __future__ import annotations

from collections.abc import Mapping

from normexp.config import grid
from normexp.config.overrides import slug
from normexp.keys import Value
from normexp.labels import plural, value_text
from normexp.plan import Plan
from normexp.run import KEYS
from normexp.settings import SETTINGS

TWINS = ("ln", "rms")
DEFAULTS: Mapping[str, Value] = {"steps": 400, "eval_every": 50}
NAME = "collapse+"
"""How the names of these plans begin."""
QUESTION = "Does this network collapse? "
SEEDS = (0, 1, 2)
LONGEST_SLUG = 60


def plan_of(setting: str, given: Mapping[str, Value]) -> Plan:
    """The network of the given keys in a setting, three seeds, and its LN and RMSNorm twins, which train beside it."""
    row = SETTINGS[setting]
    keys = row.keys_at(given.get("position", KEYS["position"].default))
    values: dict[str, Value] = {"lr": row.collapse_lr, **DEFAULTS, **keys, **given}
    norm = values.pop("norm", "none")
    norms = list(dict.fromkeys((norm, *TWINS)))
    seeds = [values.pop("seed")] if "seed" in values else list(SEEDS)
    name = f"{NAME}{setting}" + slug(sorted(f"{key}={value}" for key, value in given.items()), LONGEST_SLUG)
    title = QUESTION + _trained(row.label, values)
    return grid.plan_of(name=name, title=title, groups=[("", {**values, "seed": seeds, "norm": norms})])


def asked(plan: Plan) -> bool:
    """Whether a plan is of a network beside its twins, whatever its title says."""
    return plan.name.startswith(NAME) and "norm" in plan.axes


def trained(plan: Plan) -> str:
    """What is trained, in words, as the plan's title has it."""
    return plan.title.removeprefix(QUESTION)


def _trained(label: str, values: Mapping[str, Value]) -> str:
    """`20 layers, lr 0.01, 400 steps, as a Transformer`."""
    depth, lr, steps = (values.get(key, KEYS[key].default) for key in ("depth", "lr", "steps"))
    return f"{plural(depth, 'layer')}, lr {value_text('lr', lr)}, {plural(steps, 'step')}, {label}"
