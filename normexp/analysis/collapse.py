"""One network beside its normalized twins: does it break, when, and in which layer? The answer in words and a table.

What is trained to see whether a network collapses: itself, and its normalized twins.
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
from normexp.config.presets import SETTINGS
from normexp.config.run import KEYS
from normexp.records.record import Outcome, RunRecord, Traces, sizes_by_step
from normexp.schemes.network_config import Value

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


NORM_NAMES = {"ln": "LN", "rms": "RMSNorm", "none": "no norm"}
SHOWN_LAYERS = 8
LAST_STEPS = 4
FAIR_SHARE = 0.5
"""Learned fraction, of the best twin's, from which on a network counts as healthy."""


def verdict(plan: Plan, records: Mapping[str, RunRecord]) -> str:
    """What was trained, and what became of the network and of its twins; what has not ended leaves it open.

    It opens with "Nothing collapsed." where all learned, and the network at least `FAIR_SHARE` of what its twins did.
    """
    by_id: dict[str, dict[str, RunRecord | None]] = {}
    for point in plan.points:
        run_id = point.config.run_id
        by_id.setdefault(norm_of(point), {})[run_id] = records.get(run_id)
    groups = {norm: list(runs.values()) for norm, runs in by_id.items()}
    found = [record for group in groups.values() for record in group]
    if not any(found):
        return "No run has ended yet."
    told = [f"{NORM_NAMES.get(norm, norm)}: {_fate(group)}" for norm, group in groups.items()]
    opening = "Nothing collapsed. " if _healthy(list(groups.values())) else ""
    return f"{opening}{trained(plan)}: {'; '.join(told)}."


def _healthy(groups: Sequence[Sequence[RunRecord | None]]) -> bool:
    """Whether every run learned, and those of the first group not much less than the best of the others."""
    if not all(record is not None and record.result_word == Outcome.LEARNED for group in groups for record in group):
        return False
    own, *twins = [_fractions([record for record in group if record is not None]) for group in groups]
    return min(own) >= FAIR_SHARE * max(fraction for twin in twins for fraction in twin)


def norm_of(point: Point) -> str:
    """The norm that was asked for."""
    return str(point.values["norm"])


def _fate(group: Sequence[RunRecord | None]) -> str:
    """`3 of 3 died, at steps 12–33, in layer 3`, `1 of 3 died (at step 12, in layer 3) and 2 of 3 pending`."""
    words: dict[str, list[RunRecord]] = {}
    for record in group:
        if record is not None:
            words.setdefault(record.result_word, []).append(record)
    parts, alone = [], len(words) == 1 and None not in group
    for word, found in sorted(words.items(), key=lambda item: -len(item[1])):
        share = f"{len(found)} of {len(group)}"
        if word == Outcome.NONFINITE:
            deaths = [record.result.death for record in found if record.result and record.result.death]
            steps, layers = [death.step for death in deaths], [death.layer for death in deaths]
            where = f"at {_numbered('step', steps)}, in {_numbered('layer', layers)}"
            parts.append(f"{share} died, {where}" if alone else f"{share} died ({where})")
        else:
            parts.append(f"{share} {word}{_losses(found)}")
    missing = sum(record is None for record in group)
    return listed(parts + ([f"{missing} of {len(group)} {PENDING}"] if missing else []))


def _numbered(noun: str, numbers: Sequence[int]) -> str:
    """`step 7`, `steps 12–33`."""
    return f"{noun}{'s' if len(set(numbers)) > 1 else ''} {range_text(numbers)}"


def _losses(found: Sequence[RunRecord]) -> str:
    losses = [record.result.final_val_loss for record in found if record.result]
    known = [loss for loss in losses if loss is not None]
    if not known:
        return ""
    low, high = loss_text(min(known)), loss_text(max(known))
    told = f"loss {low}" if low == high else f"loss {low} to {high}"
    learned = [record for record in found if record.result_word == Outcome.LEARNED]
    shares = sorted({round(100 * fraction) for fraction in _fractions(learned)})
    return f" ({told}{f', {range_text(shares)} % of what there is' if shares else ''})"


def _fractions(found: Sequence[RunRecord]) -> list[float]:
    """Learned fraction of each run that has a final loss."""
    results = [record.result for record in found if record.result is not None]
    return [r.losses.learned_fraction(r.final_val_loss) for r in results if r.final_val_loss is not None]


def tables(plan: Plan, records: Mapping[str, RunRecord], examples: Mapping[str, RunRecord]) -> list[TextTable]:
    """Every run, and for each network by its name the stream of an example with traces."""
    signals = [
        signal(f"RMS of the stream by layer: {name}, seed {record.config.seed}", record.traces)
        for name, record in examples.items()
        if record.traces is not None
    ]
    return [deaths(plan, records), *signals]


def deaths(plan: Plan, records: Mapping[str, RunRecord]) -> TextTable:
    """Outcome of each run, and its first bad step, kind, place, tensor and layer."""
    rows = []
    norms = list(dict.fromkeys(map(norm_of, plan.points)))
    for point in sorted(plan.points, key=lambda point: norms.index(norm_of(point))):
        record = records.get(point.config.run_id)
        result = record.result if record is not None else None
        death = result.death if result is not None else None
        place = [str(death.step), death.kind, death.where, death.tensor, str(death.layer)] if death else [""] * 5
        loss = None if result is None else result.final_val_loss
        text = "" if loss is None else "nan" if math.isnan(loss) else loss_text(loss)
        word = record.result_word if record is not None else PENDING
        rows.append((norm_of(point), str(point.config.seed), word, text, *place))
    header = ("norm", "seed", "outcome", "final loss", "step", "kind", "where", "tensor", "layer")
    return TextTable(title="Runs", header=header, rows=tuple(rows))


def signal(title: str, traces: Traces) -> TextTable:
    """Activation RMS by layer: before training, and on the way down, or at the end of a run that survived."""
    before, dying = (sizes_by_step(rows, "stream", "rms") for rows in (traces.layers, traces.death_layers))
    columns = {"before training": before.get(0, {})}
    later = dying or {step: sizes for step, sizes in before.items() if step > 0}
    for step in sorted(later)[-(LAST_STEPS if dying else 1) :]:
        columns[f"step {step}"] = later[step]
    layers = sorted(columns["before training"])
    spread = max(1, math.ceil((len(layers) - 1) / SHOWN_LAYERS))
    shown = sorted({*layers[::spread], *layers[-2:]})
    rows = [(_layer_name(layer, layers), *(_size(sizes, layer) for sizes in columns.values())) for layer in shown]
    return TextTable(title=title, header=("layer", *columns), rows=tuple(rows))


def _layer_name(layer: int, layers: Sequence[int]) -> str:
    return {layers[0]: f"{layer} (embedding)", layers[-1]: f"{layer} (into the head)"}.get(layer, str(layer))


def _size(sizes: Mapping[int, float], layer: int) -> str:
    return f"{sizes[layer]:.3g}" if layer in sizes else ""


def exemplars(plan: Plan, records: Mapping[str, RunRecord]) -> dict[str, str]:
    """One run a norm, by the name of the norm: the first that died, else the first that ended."""
    chosen: dict[str, str] = {}
    for point in plan.points:
        run_id, norm = point.config.run_id, norm_of(point)
        name = NORM_NAMES.get(norm, norm)
        record, current = records.get(run_id), records.get(chosen.get(name, ""))
        if record is not None and (current is None or (_died(record) and not _died(current))):
            chosen[name] = run_id
    return chosen


def _died(record: RunRecord) -> bool:
    return record.result is not None and record.result.death is not None
