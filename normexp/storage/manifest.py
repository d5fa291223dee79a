"""manifest.json: what a results folder is about, complete enough to report it without its YAML.

Which state of the user's code results were made with.
"""

from __future__ import annotations

import dataclasses
import functools
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import normexp
from normexp.config.plan import Pivot, Plan, Point, Published, Shard
from normexp.config.run import KEYS, UnknownRow, config_from
from normexp.schemes.network_config import Value
from normexp.storage.codec import SCHEMA, from_json, to_json_of_rows, typed


def git_commit() -> str | None:
    """The commit of the working directory, if it is in a Git repository."""
    try:
        told = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip()


Configs = Mapping[str, Mapping[str, Any]]
"""Run id to config, as stored."""

SHOWN_VALUES = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoredPoint:
    """A point whose run is told by its id."""

    label: str
    values: Mapping[str, Value]
    run_id: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The parts of manifest.json that are read, as stored: the configs are not checked yet.

    That of a shard describes the whole sweep, and says which `shard` of it the folder is.
    """

    name: str
    title: str
    folder: str
    axes: tuple[str, ...]
    warnings: tuple[str, ...]
    pivot: Pivot | None
    published: tuple[Published, ...]
    points: tuple[StoredPoint, ...]
    runs: Mapping[str, Mapping[str, Value]]
    argv: tuple[str, ...]
    shard: Shard | None


def manifest_json(plan: Plan, *, argv: Sequence[str], commit: str | None) -> str:
    """The manifest of a plan. `commit` is that of the working directory, None outside of Git."""
    whole = plan.whole or plan
    ids = [point.config.run_id for point in whole.points]
    points = [
        {"label": point.label, "values": dict(point.values), "run_id": run_id}
        for point, run_id in zip(whole.points, ids, strict=True)
    ]
    runs = {run_id: point.config.to_dict() for point, run_id in zip(whole.points, ids, strict=True)}
    described = {name: getattr(whole, name) for name in ("name", "title", "folder", "axes", "warnings")}
    return to_json_of_rows(
        {"normexp": normexp.__version__, "schema": SCHEMA, "commit": commit, "argv": list(argv)}
        | described
        | ({"shard": plan.shard} if plan.shard else {})
        | {"pivot": whole.pivot, "published": whole.published, "points": points, "runs": runs}
    )


class Newer(ValueError):
    """Of a later program: not to be overwritten."""


@functools.lru_cache(maxsize=1)
def parse(text: str) -> Manifest:
    """A manifest; the latest is kept, for a command reads its folder's several times.

    Raises ValueError where it is not one, or a newer program's.
    """
    read = from_json(text)
    missing = {"normexp", "schema", "points", "runs", "axes"} - set(read)
    if missing:
        raise ValueError(f"not a normexp manifest: no {', '.join(sorted(missing))}")
    if typed(int, read["schema"], "schema") > SCHEMA:
        raise Newer(f"written by normexp {read['normexp']}, whose layout this version cannot read")
    manifest: Manifest = typed(Manifest, {"argv": [], "shard": None} | read, "")
    return manifest


def run_ids(manifest: Manifest) -> list[str]:
    """The distinct runs of the folder, in the order in which the points ask for them."""
    found, shard = dict.fromkeys(point.run_id for point in manifest.points), manifest.shard
    return [run_id for run_id in found if shard is None or shard.has(run_id)]


def plan_of(manifest: Manifest, source: str) -> Plan:
    """The folder's plan back.

    Raises ValueError where a config is not that of its run id, or a point or key has no meaning.
    """
    configs = {run_id: config_from(stored) for run_id, stored in manifest.runs.items()}
    for run_id, config in configs.items():
        if config.run_id != run_id:
            if config.plugins():
                raise UnknownRow(f"{run_id} was made with another version of its plugin: give that one with --plugin")
            raise ValueError(f"the config of {run_id} is that of {config.run_id}")
    lost = [point.run_id for point in manifest.points if point.run_id not in configs]
    if lost:
        raise ValueError(f"a point asks for {lost[0]}, which is not among the runs")
    laid_out = set() if manifest.pivot is None else {*manifest.pivot.rows, *manifest.pivot.columns} - {"label"}
    unknown = sorted((laid_out | set(manifest.axes)) - set(KEYS))
    if unknown:
        raise ValueError(f"unknown keys {', '.join(unknown)}")
    points = tuple(
        Point(label=point.label, values=_checked(point, manifest.axes), config=configs[point.run_id])
        for point in manifest.points
    )
    same = {name: getattr(manifest, name) for name in ("name", "title", "folder", "axes", "pivot", "published")}
    whole = Plan(points=points, source=source, warnings=manifest.warnings, argv=manifest.argv, **same)
    return whole if manifest.shard is None else whole.part(manifest.shard)


def _checked(point: StoredPoint, axes: Sequence[str]) -> dict[str, Value]:
    if set(point.values) != set(axes):
        raise ValueError(f"a point of {point.run_id} has values of other axes than the sweep's")
    return {name: KEYS[name].check(value) for name, value in point.values.items()}


def differences(old: Configs, new: Configs, words: tuple[str, str] = ("there", "now")) -> list[str]:
    """A line for each key whose set of values is not the same in both, which `words` name."""
    lines = []
    for name, key in KEYS.items():
        before = _values([config.get(name, key.neutral) for config in old.values()])
        after = _values([config.get(name, key.neutral) for config in new.values()])
        if before != after:
            lines.append(f"  {name}: {_listed(before)} {words[0]}, {_listed(after)} {words[1]}")
    return lines


def stored_form(plan: Plan) -> Configs:
    """The configs of a plan as a manifest would hold them."""
    return {run_id: config.to_dict() for run_id, config in (plan.whole or plan).configs.items()}


def _values(values: Sequence[Any]) -> list[Any]:
    return sorted(set(values), key=lambda value: (isinstance(value, str), value))


def _listed(values: Sequence[Any]) -> str:
    texts = [str(value) for value in values[:SHOWN_VALUES]]
    rest = len(values) - len(texts)
    return ", ".join(texts) + (f" and {rest} more" if rest else "") if texts else "nothing"
