"""One network beside its normalized twins: does it break, when, and in which layer? The answer in words and a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from normexp.config import grid
from normexp.keys import Value
from normexp.plan import Plan
from normexp.record import Outcome, RunRecord, SignalRow, Traces
from normexp.settings import SETTINGS
from normexp.views.labels import listed, loss_text, range_text
from normexp.views.pivot import TextTable

TWINS = ("ln", "rms")
NORM_NAMES = {"ln": "LN", "rms": "RMSNorm", "none": "no norm"}
DEFAULTS: Mapping[str, Value] = {"steps": 400, "eval_every": 50}
RATES = {"as-a-transformer": 1e-2, "as-described": 1e-3, "as-written": 1e-3}
SEEDS = (0, 1, 2)
SHOWN_LAYERS = 8
LAST_STEPS = 4


def plan_of(setting: str, given: Mapping[str, Value]) -> Plan:
    """The network of the given keys in a setting, three seeds, and its LN and RMSNorm twins."""
    values: dict[str, Value] = {"lr": RATES[setting], **DEFAULTS, **SETTINGS[setting], **given}
    norm = values.pop("norm", "none")
    norms = list(dict.fromkeys((norm, *TWINS)))
    seeds = [values.pop("seed")] if "seed" in values else list(SEEDS)
    told = [f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in given.items()]
    name = "+".join(["collapse", setting, *sorted(told)])
    title = f"Does this network collapse? ({setting.replace('-', ' ')})"
    return grid.plan_of(name=name, title=title, groups=[("", {**values, "norm": norms, "seed": seeds})])


def verdict(plan: Plan, records: Mapping[str, RunRecord]) -> str:
    """What became of the network and of its twins, in a sentence or two."""
    norms = list(dict.fromkeys(config.norm for config in plan.configs.values()))
    groups = {norm: [records[i] for i, c in plan.configs.items() if c.norm == norm and i in records] for norm in norms}
    if not any(groups.values()):
        return "No run has ended yet."
    told = [f"{NORM_NAMES.get(norm, norm)}: {_fate(group)}" for norm, group in groups.items() if group]
    unhealthy = [norm for norm, group in groups.items() if any(record.result_word != "learned" for record in group)]
    opening = "" if unhealthy else "Nothing collapsed. "
    return f"{opening}{'; '.join(told)}."


def _fate(group: Sequence[RunRecord]) -> str:
    """`3 of 3 died, at steps 12–33, in layer 3`, `2 of 3 learned (loss 1.9–2.0), 1 plateau`."""
    counts = Counter(record.result_word for record in group)
    parts = []
    for outcome, count in counts.most_common():
        share = f"{count} of {len(group)}"
        if outcome == Outcome.NONFINITE:
            found = [record.result.death for record in group if record.result and record.result.death]
            steps, layers = [death.step for death in found], [death.layer for death in found]
            parts.append(f"{share} died, at {_numbered('step', steps)}, in {_numbered('layer', layers)}")
        else:
            parts.append(f"{share} {outcome}{_losses(group, outcome)}")
    return listed(parts)


def _numbered(noun: str, numbers: Sequence[int]) -> str:
    """`step 7`, `steps 12–33`."""
    return f"{noun}{'s' if len(set(numbers)) > 1 else ''} {range_text(numbers)}"


def _losses(group: Sequence[RunRecord], outcome: str) -> str:
    losses = [
        record.result.final_val_loss
        for record in group
        if record.result_word == outcome and record.result and record.result.final_val_loss is not None
    ]
    if not losses:
        return ""
    low, high = loss_text(min(losses)), loss_text(max(losses))
    return f" (loss {low})" if low == high else f" (loss {low} to {high})"


def deaths(plan: Plan, records: Mapping[str, RunRecord]) -> TextTable:
    """Outcome of each run, and its first bad step, kind, place, tensor and layer."""
    rows = []
    for run_id, config in plan.configs.items():
        record = records.get(run_id)
        death = record.result.death if record is not None and record.result is not None else None
        place = [str(death.step), death.kind, death.where, death.tensor, str(death.layer)] if death else [""] * 5
        loss = record.result.final_val_loss if record is not None and record.result is not None else None
        told = "" if loss is None else loss_text(loss)
        rows.append((config.norm, str(config.seed), record.result_word if record else "pending", told, *place))
    header = ("norm", "seed", "outcome", "final loss", "step", "kind", "where", "tensor", "layer")
    return TextTable(title="Runs", header=header, rows=tuple(rows))


def stream_rms(rows: Sequence[SignalRow]) -> dict[int, dict[int, float]]:
    """Step to layer to RMS of the stream."""
    steps: dict[int, dict[int, float]] = {}
    for row in rows:
        if row.part == "stream" and row.quantity == "rms":
            steps.setdefault(row.step, {})[row.layer] = row.value
    return steps


def signal(title: str, traces: Traces) -> TextTable:
    """Activation RMS by layer: before training, and on the way down, or at the end of a run that survived."""
    before, dying = stream_rms(traces.layers), stream_rms(traces.death_layers)
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
    for run_id, config in plan.configs.items():
        record = records.get(run_id)
        died = record is not None and record.result is not None and record.result.death is not None
        name = NORM_NAMES.get(config.norm, config.norm)
        current = records.get(chosen.get(name, ""))
        if record is not None and (name not in chosen or (died and current and not _died(current))):
            chosen[name] = run_id
    return chosen


def _died(record: RunRecord) -> bool:
    return record.result is not None and record.result.death is not None
