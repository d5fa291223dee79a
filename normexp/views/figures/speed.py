"""Time of a training step, as a figure shows it. It tells of the machine as much as of the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from normexp.errors import UserError
from normexp.keys import Value
from normexp.labels import listed
from normexp.plan import LABEL
from normexp.record import RunRecord
from normexp.views.figures.chart import LINEAR, NAMES, Axis, Chart, Line, Spot, value_axis
from normexp.views.figures.choice import Choice, Source, check_axis, checked_facets, omitted_note, texts_of
from normexp.views.figures.panels import Texts, place

TRAINING_ONLY = frozenset(
    [
        "lr",
        "warmup",
        "schedule",
        "init",
        "init_gain",
        "task_seed",
        "sharpness",
        "label_noise",
        "beta1",
        "beta2",
        "weight_decay",
        "eps",
        "dyt_alpha",
        "steps",
        "eval_every",
        "post_share",
    ]
)
"""Keys that leave the work of a step as it is: runs that differ in them alone are one line."""
Y = Axis(key="step_ms", label="time of a step (ms)", scale=LINEAR)


def speed(source: Source, choice: Choice) -> Chart:
    """Milliseconds a training step along depth, or along what else varies; medians over runs, with their range.

    Raises UserError where no run has a time, or where an axis does not vary.
    """
    timed = {run_id: ms for run_id, record in source.records.items() if (ms := step_ms(record)) is not None}
    if not timed:
        raise UserError("no run has a time: none of them made a step")
    along = check_axis(source, "--x", choice.x) if choice.x else _along(source)
    facets = checked_facets(source, choice)
    others = [key for key in source.varying if key != along and (key not in TRAINING_ONLY or key in (facets or ()))]
    items = list(_items(source, along, others, timed))
    layout = place(items, facets)
    lines = [
        Line(
            panel=one.panel,
            label=one.label,
            keys=one.keys,
            spots=[Spot.of(value, times) for value, times in one.item.items()],
        )
        for one in layout.placed
    ]
    values = list(dict.fromkeys(spot.x for line in lines for spot in line.spots))
    records = [source.records[run_id] for run_id in source.plan.configs if run_id in timed]
    return Chart(
        title=source.title,
        x=_linear(value_axis(along, values, source.labels))
        if along
        else Axis(key="runs", label="", scale=NAMES, values=("all runs",), names=("all runs",)),
        y=Y,
        lines=lines,
        axes={},
        columns=layout.columns,
        notes=(machine_note(records), *omitted_note(layout.omitted, len(items), "line")),
    )


def _linear(axis: Axis) -> Axis:
    """Time rises with the number of blocks, so that a line is straight."""
    return replace(axis, scale=LINEAR) if axis.scale != NAMES else axis


def _along(source: Source) -> str:
    """Depth if it varies, else what changes a step and has the most values; none where nothing does."""
    keys = [key for key in source.varying if key not in TRAINING_ONLY]
    return max(keys, key=lambda key: (key == "depth", key != LABEL, len(source.values(key))), default="")


def _items(
    source: Source, along: str, others: Sequence[str], timed: Mapping[str, float]
) -> Iterator[tuple[Texts, dict[Value, list[float]]]]:
    labels = source.labels
    found: dict[tuple[Value, ...], dict[Value, dict[str, float]]] = {}
    for cell in source.cells():
        where: Value = cell.values[along] if along else "all runs"
        times = {run["run_id"]: timed[run["run_id"]] for run in cell.runs if run["run_id"] in timed}
        if times:
            line = found.setdefault(tuple(cell.values[key] for key in others), {})
            line.setdefault(where, {}).update(times)
    for names, by_value in found.items():
        ordered = sorted(by_value, key=list(source.values(along)).index) if along else list(by_value)
        numeric = along and value_axis(along, ordered, labels).scale != NAMES
        if numeric:
            ordered.sort(key=float)
        texts = texts_of([dict(zip(others, names, strict=True))], others, labels)
        yield texts, {value: list(by_value[value].values()) for value in ordered}


def step_ms(record: RunRecord) -> float | None:
    """Milliseconds that a training step of a run took; None where it made none, or was not timed."""
    seconds = record.seconds.get("steps")
    steps = record.result.steps_done if record.result is not None else 0
    return None if seconds is None or steps < 1 else 1000 * seconds / steps


def machine_note(records: Sequence[RunRecord]) -> str:
    """What the times depend on, in words: they are no property of the networks alone."""
    found = {name: sorted({str(one.environment[name]) for one in records if name in one.environment}) for name in KNOWN}
    known = "; ".join(KNOWN[name].format(listed(values)) for name, values in found.items() if values)
    return "Times depend on the machine and on what ran beside" + (f": {known}" if known else "")


KNOWN = {"platform": "{}", "cpu_capability": "{}", "torch": "torch {}", "torch_threads": "threads a run: {}"}
"""What of an environment is told with times."""
