"""Train one network and its LayerNorm and RMSNorm baselines, and report which runs became non-finite, when and where.

The baselines differ from the network only in the norm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from normexp.analysis.frames import PENDING
from normexp.analysis.tables import TextTable
from normexp.config import grid
from normexp.config.labels import listed, loss_text, plural, range_text, value_text
from normexp.config.overrides import slug
from normexp.config.plan import Plan, Point
from normexp.config.presets import COLLAPSE_DEFAULTS as DEFAULTS
from normexp.config.presets import SETTINGS
from normexp.config.run import KEYS
from normexp.records.record import Outcome, RunRecord, Traces, sizes_by_step
from normexp.schemes.network_config import Value

TWINS = ("ln", "rms")
NAME = "collapse+"
"""Prefix of the names of these plans."""
QUESTION = "Does this network collapse? "
SEEDS = (0, 1, 2)
LONGEST_SLUG = 60
NORM_NAMES = {"ln": "LN", "rms": "RMSNorm", "none": "no norm"}
SHOWN_LAYERS = 8
LAST_STEPS = 4
FAIR_SHARE = 0.5
"""A network counts as healthy if its learned fraction is at least this share of the best baseline's."""


def plan_of(setting: str, user_values: Mapping[str, Value]) -> Plan:
    """Return the plan of a network and its LN and RMSNorm baselines, with three seeds each.

    `user_values` take precedence over those of the setting.
    """
    row = SETTINGS[setting]
    keys = row.keys_at(user_values.get("position", KEYS["position"].default))
    values: dict[str, Value] = {"lr": row.collapse_lr, **DEFAULTS, **keys, **user_values}
    norm = values.pop("norm", "none")
    norms = list(dict.fromkeys((norm, *TWINS)))
    seeds = [values.pop("seed")] if "seed" in values else list(SEEDS)
    name = f"{NAME}{setting}" + slug(sorted(f"{key}={value}" for key, value in user_values.items()), LONGEST_SLUG)
    title = QUESTION + _trained(row.label, values)
    return grid.plan_of(name=name, title=title, groups=[("", {**values, "seed": seeds, "norm": norms})])


def asked(plan: Plan) -> bool:
    """Return whether a plan was made by `plan_of`, whatever its title says."""
    return plan.name.startswith(NAME) and "norm" in plan.axes


def trained(plan: Plan) -> str:
    """Return the description of the network from the plan's title, as in `20 layers, lr 0.01, 400 steps, ...`."""
    return plan.title.removeprefix(QUESTION)


def _trained(label: str, values: Mapping[str, Value]) -> str:
    """Describe the network: `20 layers, lr 0.01, 400 steps, as a Transformer`."""
    depth, lr, steps = (values.get(key, KEYS[key].default) for key in ("depth", "lr", "steps"))
    return f"{plural(depth, 'layer')}, lr {value_text('lr', lr)}, {plural(steps, 'step')}, {label}"


def verdict(plan: Plan, records: Mapping[str, RunRecord]) -> str:
    """Return one sentence on how the runs of the network and of its baselines ended; pending runs are counted.

    The sentence starts with "Nothing collapsed." if all runs learned, and the network's learned fraction is at least
    `FAIR_SHARE` of the best baseline's.
    """
    by_id: dict[str, dict[str, RunRecord | None]] = {}
    for point in plan.points:
        run_id = point.config.run_id
        by_id.setdefault(norm_of(point), {})[run_id] = records.get(run_id)
    groups = {norm: list(runs.values()) for norm, runs in by_id.items()}
    if not any(record for group in groups.values() for record in group):
        return "No run has ended yet."
    results = [f"{NORM_NAMES.get(norm, norm)}: {_group_text(group)}" for norm, group in groups.items()]
    opening = "Nothing collapsed. " if _healthy(list(groups.values())) else ""
    return f"{opening}{trained(plan)}: {'; '.join(results)}."


def _healthy(groups: Sequence[Sequence[RunRecord | None]]) -> bool:
    """Return whether every run learned, and the first group at least `FAIR_SHARE` of what the best baseline learned."""
    if not all(record is not None and record.result_word == Outcome.LEARNED for group in groups for record in group):
        return False
    own, *twins = [_fractions([record for record in group if record is not None]) for group in groups]
    return min(own) >= FAIR_SHARE * max(fraction for twin in twins for fraction in twin)


def norm_of(point: Point) -> str:
    """Return the configured norm of a point."""
    return str(point.values["norm"])


def _group_text(group: Sequence[RunRecord | None]) -> str:
    """Describe the outcomes of one network's runs.

    Examples: `3/3 became non-finite at steps 12–33, in layer 3`; `1/3 became non-finite at step 12, in layer 3, and 2/3
    pending`.
    """
    by_outcome: dict[str, list[RunRecord]] = {}
    for record in group:
        if record is not None:
            by_outcome.setdefault(record.result_word, []).append(record)
    parts = []
    for outcome, records in sorted(by_outcome.items(), key=lambda item: -len(item[1])):
        share = f"{len(records)}/{len(group)}"
        if outcome == Outcome.NONFINITE:
            deaths = [record.result.death for record in records if record.result and record.result.death]
            steps, layers = [death.step for death in deaths], [death.layer for death in deaths]
            where = f"at {_numbered('step', steps)}, in {_numbered('layer', layers)}"
            parts.append(f"{share} became non-finite ({where})")
        else:
            parts.append(f"{share} {outcome}{_losses(records)}")
    missing = sum(record is None for record in group)
    return listed(parts + ([f"{missing}/{len(group)} {PENDING}"] if missing else []))


def _numbered(noun: str, numbers: Sequence[int]) -> str:
    """Return a noun with its number or range: `step 7`, `steps 12–33`."""
    return f"{noun}{'s' if len(set(numbers)) > 1 else ''} {range_text(numbers)}"


def _losses(records: Sequence[RunRecord]) -> str:
    losses = [record.result.final_val_loss for record in records if record.result]
    known = [loss for loss in losses if loss is not None]
    if not known:
        return ""
    low, high = loss_text(min(known)), loss_text(max(known))
    loss = f"loss {low}" if low == high else f"loss {low} to {high}"
    learned = [record for record in records if record.result_word == Outcome.LEARNED]
    percents = sorted({round(100 * fraction) for fraction in _fractions(learned)})
    return f" ({loss}{f', {range_text(percents)} % of the learnable gap' if percents else ''})"


def _fractions(records: Sequence[RunRecord]) -> list[float]:
    """Return the learned fraction of each run that has a final loss."""
    results = [record.result for record in records if record.result is not None]
    return [r.losses.learned_fraction(r.final_val_loss) for r in results if r.final_val_loss is not None]


def tables(plan: Plan, records: Mapping[str, RunRecord], examples: Mapping[str, RunRecord]) -> list[TextTable]:
    """Return the table of all runs, and a table of the residual stream for each example with traces.

    `examples` maps the name of a network to one of its runs.
    """
    signals = [
        signal(f"RMS of the residual stream by layer: {name}, seed {record.config.seed}", record.traces)
        for name, record in examples.items()
        if record.traces is not None
    ]
    return [deaths(plan, records), *signals]


def deaths(plan: Plan, records: Mapping[str, RunRecord]) -> TextTable:
    """Return the outcome of each run, and the step, kind, location, tensor and layer of its first non-finite value."""
    rows = []
    norms = list(dict.fromkeys(map(norm_of, plan.points)))
    for point in sorted(plan.points, key=lambda point: norms.index(norm_of(point))):
        record = records.get(point.config.run_id)
        result = record.result if record is not None else None
        death = result.death if result is not None else None
        origin = [str(death.step), death.kind, death.where, death.tensor, str(death.layer)] if death else [""] * 5
        loss = None if result is None else result.final_val_loss
        shown_loss = "" if loss is None else "nan" if math.isnan(loss) else loss_text(loss)
        word = record.result_word if record is not None else PENDING
        rows.append((norm_of(point), str(point.config.seed), word, shown_loss, *origin))
    header = ("norm", "seed", "outcome", "final loss", "step", "kind", "where", "tensor", "layer")
    return TextTable(title="Runs", header=header, rows=tuple(rows))


def signal(title: str, traces: Traces) -> TextTable:
    """Return the residual stream's RMS by layer, before training and at the end.

    The end is the last `LAST_STEPS` recorded steps of a non-finite run, or the last evaluation of any other.
    """
    evaluated, last_steps = (sizes_by_step(rows, "stream", "rms") for rows in (traces.layers, traces.death_layers))
    columns = {"before training": evaluated.get(0, {})}
    later = last_steps or {step: sizes for step, sizes in evaluated.items() if step > 0}
    for step in sorted(later)[-(LAST_STEPS if last_steps else 1) :]:
        columns[f"step {step}"] = later[step]
    layers = sorted(columns["before training"])
    stride = max(1, math.ceil((len(layers) - 1) / SHOWN_LAYERS))
    shown = sorted({*layers[::stride], *layers[-2:]})
    rows = [(_layer_name(layer, layers), *(_size(sizes, layer) for sizes in columns.values())) for layer in shown]
    return TextTable(title=title, header=("layer", *columns), rows=tuple(rows))


def _layer_name(layer: int, layers: Sequence[int]) -> str:
    return {layers[0]: f"{layer} (embedding)", layers[-1]: f"{layer} (LM head input)"}.get(layer, str(layer))


def _size(sizes: Mapping[int, float], layer: int) -> str:
    return f"{sizes[layer]:.3g}" if layer in sizes else ""


def exemplars(plan: Plan, records: Mapping[str, RunRecord]) -> dict[str, str]:
    """Return one run id for each norm, by the norm's name: the first non-finite run, else the first that ended."""
    chosen: dict[str, str] = {}
    for point in plan.points:
        run_id, norm = point.config.run_id, norm_of(point)
        name = NORM_NAMES.get(norm, norm)
        record, current = records.get(run_id), records.get(chosen.get(name, ""))
        if record is not None and (current is None or (_nonfinite(record) and not _nonfinite(current))):
            chosen[name] = run_id
    return chosen


def _nonfinite(record: RunRecord) -> bool:
    return record.result is not None and record.result.death is not None
