"""Save weights as the bytes of a safetensors file, and load them: names and shapes are checked, no code is run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from normexp.config.run import KEYS, RunConfig, config_from
from normexp.errors import UserError
from normexp.model.network import Network, build
from normexp.records.numerics import numerics

FORMAT = 1
"""Format version. Increase it when the names or the meaning of tensors or metadata change."""
CONFIG, RUN, HISTORY = "normexp_config", "normexp_run_id", "normexp_history"
VERSION, NUMBERS = "normexp_format", "normexp_numerics"
"""Metadata keys, all with text values: the config as JSON, its run id, and the origin of the weights; two integers."""
METADATA = "__metadata__"
WIDENED = ("F32", "BF16", "F16")
"""File types that a float32 tensor represents exactly. Every other tensor allows a single type."""
TYPES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
PICKLES = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
"""First bytes of files written by torch.save and pickle."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a file: metadata, and the type and shape of each tensor by name."""

    metadata: Mapping[str, str]
    tensors: Mapping[str, tuple[str, tuple[int, ...]]]


def tensors_of(network: nn.Module) -> dict[str, Tensor]:
    """Return every parameter (shared ones once) and every stored buffer (running statistics), by name."""
    stored = set(network.state_dict())
    named = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    return {name: tensor.detach() for name, tensor in named.items() if name in stored}


def weights_bytes(network: nn.Module, config: RunConfig, *, history: str = "") -> bytes:
    """Return a safetensors file with the network's weights and its config. Equal weights give equal bytes."""
    metadata = {CONFIG: json.dumps(config.to_dict()), RUN: config.run_id}
    metadata |= {VERSION: str(FORMAT), NUMBERS: str(numerics(config))}
    if history:
        metadata[HISTORY] = history
    data = save({name: tensor.clone().contiguous() for name, tensor in tensors_of(network).items()}, metadata)
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header[METADATA] = dict(sorted(header[METADATA].items()))  # the library writes them in random order
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def network_from(data: bytes, *, origin: str, config: RunConfig | None = None) -> tuple[RunConfig, Network]:
    """Return the network of a file in float32, built from the config in the file, or the given one if it has none.

    `origin` names the file in messages. Raises UserError if it is not a complete safetensors file, if there is no
    config or it differs from the given one, and at the first tensor that is missing, unexpected, or of another shape
    or type.
    """
    header = header_of(data, origin)
    if config is None or CONFIG in header.metadata:
        stored = stored_config(header, origin)
        _compare(config or stored, stored, origin)
        config = stored
    _check(header, config, origin)
    try:
        tensors = load(data)
    except (SafetensorError, KeyError, OSError, RuntimeError, TypeError, ValueError) as fault:
        raise UserError(f"{origin} is damaged: {_clean(str(fault))}") from fault
    try:
        network = build(config)  # only after the check, so that a small file cannot request a huge network
    except (MemoryError, RuntimeError) as fault:
        raise UserError(f"{origin}: cannot build the network of its config: {_clean(str(fault))}") from fault
    with torch.no_grad():
        for name, tensor in tensors_of(network).items():
            tensor.copy_(tensors[name])
    return config, network


def header_of(data: bytes, origin: str) -> Header:
    """Return the header of a file. Raises UserError if it is not a safetensors file."""
    if not data:
        raise UserError(f"{origin} is empty")
    if data[8:9] != b"{":
        if data.startswith(PICKLES):
            raise UserError(
                f"{origin} is a torch.save or pickle file, which is not read because it can run code: save its state "
                "dict with safetensors.torch.save_file, and give that file"
            )
        raise UserError(f"{origin} is not a safetensors file, or is damaged")
    size = int.from_bytes(data[:8], "little")
    if size > len(data) - 8:
        raise UserError(f"{origin} is damaged or truncated: its header has {size} bytes, but the file only {len(data)}")
    try:
        entries = json.loads(data[8 : 8 + size].decode("utf-8"))
        return Header(
            metadata=_metadata(entries.pop(METADATA, None) or {}),
            tensors={name: (str(entry["dtype"]), _shape(entry["shape"])) for name, entry in entries.items()},
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise UserError(f"{origin} is damaged: its header is not a valid safetensors header") from None


def stored_config(header: Header, origin: str) -> RunConfig:
    """Return the config in the metadata. Raises UserError if there is none or it is invalid."""
    if CONFIG not in header.metadata:
        raise UserError(
            f"{origin} does not contain its config: give it with --config key=value, such as "
            "--config depth=6 --config norm=ln, or --config FILE.yaml"
        )
    version = header.metadata.get(VERSION, "")
    if not version.isdecimal() or int(version[:9]) > FORMAT:
        raise UserError(f"{origin}: unknown weights format {_clean(version)!r}: written by a newer normexp?")
    try:
        values = json.loads(header.metadata[CONFIG])
        if not isinstance(values, dict):
            raise ValueError("not a JSON object")
        config = config_from(values)
    except (RecursionError, TypeError, ValueError) as fault:
        raise UserError(*(f"{origin}: config: {_clean(line)}" for line in str(fault).splitlines())) from fault
    if header.metadata.get(RUN, config.run_id) != config.run_id:
        why = "its plugin has changed since" if config.plugins() else "its metadata are inconsistent"
        raise UserError(f"{origin}: weights of run {_clean(header.metadata[RUN])}, not {config.run_id}: {why}")
    return config


def _compare(requested: RunConfig, stored: RunConfig, origin: str) -> None:
    """Raise UserError at the first key in which the requested network differs from that of the file."""
    wanted, actual = requested.canonical(), stored.canonical()
    for key in KEYS:
        if getattr(wanted, key) != getattr(actual, key):
            raise UserError(f"{origin} is of a network with {key}={getattr(actual, key)}, not {getattr(wanted, key)}")


def _metadata(entries: Any) -> dict[str, str]:
    if not all(isinstance(value, str) for value in entries.values()):
        raise ValueError("metadata values must be texts")
    return dict(entries)


def _shape(sizes: Any) -> tuple[int, ...]:
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError("a shape must be a list of whole numbers")
    return tuple(sizes)


def _check(header: Header, config: RunConfig, origin: str) -> None:
    """Raise UserError at the first tensor that does not match the config's network."""
    # A layer has at least one tensor, so a network cannot have more layers than the file has tensors.
    shallow = replace(config, depth=min(config.depth, len(header.tensors) + 1))
    with torch.device("meta"):
        expected = {name: (TYPES[t.dtype], tuple(t.shape)) for name, t in tensors_of(Network(shallow)).items()}
    network = f"the network of its config (depth {config.depth}, norm {config.norm}, position {config.position}, ...)"
    for name, (kind, shape) in expected.items():
        if name not in header.tensors:
            raise UserError(f"{origin} lacks tensor {name} of shape {_sizes(shape)}, which {network} has")
        actual_kind, actual = header.tensors[name]
        if actual != shape:
            raise UserError(f"{origin}: {name} has shape {_sizes(actual)}, but {_sizes(shape)} in {network}")
        allowed = WIDENED if kind == "F32" else (kind,)
        if actual_kind not in allowed:
            raise UserError(f"{origin}: {name} has type {_clean(actual_kind)}: save it as {' or '.join(allowed)}")
    for name, (_, shape) in header.tensors.items():
        if name not in expected:
            raise UserError(f"{origin} has tensor {_clean(name)} of shape {_sizes(shape)}, which {network} lacks")


def _sizes(shape: tuple[int, ...]) -> str:
    return _clean("×".join(map(str, shape)) or "() (a scalar)")


def _clean(text: str) -> str:
    """Return a piece of a file for a message: printable, and at most 200 characters."""
    text = "".join(character if character.isprintable() else "?" for character in text)
    return text if len(text) <= 200 else text[:200] + "..."
