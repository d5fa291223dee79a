"""The options and overrides of `normexp bench`, checked: every complaint at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from normexp.config.network import one_network
from normexp.config.overrides import read_overrides
from normexp.config.yamlfile import Notes
from normexp.errors import UserError
from normexp.keys import Value
from normexp.labels import values_text
from normexp.run import RunConfig

Found = TypeVar("Found")

MOST_ELEMENTS = 2**25
"""Of a shape: a handwritten norm keeps several copies of its input."""
MOST_AXES = 6
STEP_NORMS = ("ln", "rms", "none")
"""Norms whose steps are timed unless told otherwise: the first is the reference, the last tells the norms' share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to time: shapes and numbers of threads of norms alone; steps of configs, by norm, alike in `told`."""

    shapes: list[tuple[int, ...]]
    threads: list[int]
    configs: dict[str, RunConfig]
    told: str


def read(shapes: str, threads: str | None, overrides: Sequence[str], processors: int) -> Request:
    """Options and overrides as they were typed. Raises UserError with every complaint."""
    complaints: list[str] = []
    found_shapes = _kept(complaints, lambda: read_shapes(shapes))
    found_threads = _kept(complaints, lambda: read_threads(threads, processors))
    model = _kept(complaints, lambda: read_model(overrides))
    if found_shapes is None or found_threads is None or model is None:
        raise UserError(*complaints)
    return Request(shapes=found_shapes, threads=found_threads, configs=model[0], told=model[1])


def _kept(complaints: list[str], reader: Callable[[], Found]) -> Found | None:
    try:
        return reader()
    except UserError as fault:
        complaints += fault.complaints
        return None


def read_shapes(text: str) -> list[tuple[int, ...]]:
    """`512x64,64x128x1024`: shapes, whose last axis is normalized. Raises UserError."""
    found: dict[tuple[int, ...], None] = {}
    complaints = []
    for word in text.split(","):
        sizes = [int(size[:12]) for size in word.split("x")] if re.fullmatch(r"\s*\d+(x\d+)*\s*", word) else []
        elements = 1
        for size in sizes:
            elements *= size
        if not sizes or not elements or len(sizes) > MOST_AXES:
            complaints.append(f"--shapes: {word.strip()!r} is no shape: write sizes from 1 on, such as 512x64")
        elif elements > MOST_ELEMENTS:
            complaints.append(f"--shapes: {word.strip()} has {elements} elements: write one of at most {MOST_ELEMENTS}")
        elif tuple(sizes) in found:
            complaints.append(f"--shapes: {word.strip()} stands twice: keep one")
        found[tuple(sizes)] = None
    if complaints:
        raise UserError(*complaints)
    return list(found)


def read_threads(text: str | None, processors: int) -> list[int]:
    """`1,2`: numbers of threads, each at most the processors; None: 1 and 2, as there are. Raises UserError."""
    if text is None:
        return list(range(1, min(2, processors) + 1))
    words = [word.strip() for word in text.split(",")]
    if any(not re.fullmatch(r"\d{1,6}", word) or not 1 <= int(word) <= processors for word in words):
        most = f"of the {processors} processors" if processors > 1 else "of the one processor"
        example = "1,2" if processors > 1 else "1"
        raise UserError(f"--threads {text}: write numbers from 1 on, none above that {most}, such as {example}")
    return list(dict.fromkeys(int(word) for word in words))


def read_one(texts: Sequence[str]) -> tuple[RunConfig, str]:
    """The config of one network, and its keys in words. Raises UserError."""
    notes = Notes()
    values, given = one_network(read_overrides(texts, notes), notes, several="norm")
    notes.fail_if_any()
    if len(given) > 1:
        raise UserError(f"norm={','.join(map(str, given))}: --paths times one network: write one norm")
    if given:
        values["norm"] = given[0]
    try:
        config = RunConfig(**values)  # type: ignore[arg-type]
    except ValueError as error:
        raise UserError(*str(error).splitlines()) from error
    told: dict[str, Value] = {"depth": config.depth, "width": config.width, "norm": config.norm}
    return config, values_text(told | values)


def read_model(texts: Sequence[str]) -> tuple[dict[str, RunConfig], str]:
    """The configs whose steps are timed in turns, by their norms, and what they have in common in words.

    Raises UserError.
    """
    notes = Notes()
    values, given = one_network(read_overrides(texts, notes), notes, several="norm")
    notes.fail_if_any()
    reference, *_, without = STEP_NORMS
    between = [norm for norm in map(str, given or STEP_NORMS) if norm != without]
    norms = [*dict.fromkeys([reference, *between]), without]
    try:
        configs = {norm: RunConfig(**{**values, "norm": norm}) for norm in norms}  # type: ignore[arg-type]
    except ValueError as error:
        raise UserError(*str(error).splitlines()) from error
    first = configs[reference]
    if first.depth == 0:
        raise UserError("depth: a network without layers has no norms to time: write depth=1 or more")
    told: dict[str, Value] = {"depth": first.depth, "width": first.width, "position": first.position}
    return configs, values_text(told | values)
