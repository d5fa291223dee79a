"""Records as plain data. Data from other machines is parsed like a file and never unpickled."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from normexp.config.run import RunConfig
from normexp.records.record import RunRecord, Traces
from normexp.storage import codec

APART = ("traces", "log", "weights")
"""Parts of a record that are sent beside its JSON."""
SIGNALS = ("layers", "death_layers")


def pack(record: RunRecord) -> dict[str, Any]:
    """Return a record as JSON, CSV for each trace, and log and weights unchanged."""
    fields = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    packed = {name: fields.pop(name) for name in APART}
    packed["json"] = codec.to_json(fields)
    if record.traces is not None:
        signals = {name: codec.signal_to_csv(getattr(record.traces, name)) for name in SIGNALS}
        packed["traces"] = {"curve": codec.curve_to_csv(record.traces.curve)} | signals
    return packed


def unpack(packed: Mapping[str, Any], config: RunConfig) -> RunRecord:
    """Return the bit-identical record. Raises ValueError if it is incomplete or has another config."""
    try:
        fields = codec.from_json(packed["json"]) | {name: packed[name] for name in APART}
        traces = fields["traces"] and Traces(
            curve=tuple(codec.curve_from_csv(fields["traces"]["curve"])),
            **{name: tuple(codec.signal_from_csv(fields["traces"][name])) for name in SIGNALS},
        )
        record: RunRecord = codec.typed(RunRecord, fields | {"traces": None}, "")
    except (AttributeError, KeyError, TypeError) as fault:
        raise ValueError(f"{type(fault).__name__}: {fault}") from fault
    if record.config != config:
        raise ValueError("it has another config")
    return dataclasses.replace(record, traces=traces or None)
