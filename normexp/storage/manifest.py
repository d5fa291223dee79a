"""manifest.json: the plan of a results folder, from which it can be reported without the YAML file."""

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

Configs = Mapping[str, Mapping[str, Any]]
"""Run id to config, as stored."""

SHOWN_VALUES = 8


def git_commit() -> str | None:
    """Return the commit of the working directory; None outside of Git repositories."""
    try:
        git = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return git.stdout.strip()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoredPoint:
    """A `Point` as stored: it has a run id in place of the config, since several points may share a run."""

    label: str
    values: Mapping[str, Value]
    run_id: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A `Plan` as stored: its configs are unchecked, so that folders of other versions and plugins can be listed.

    The manifest of a shard describes the complete sweep, and `shard` says which part of it the folder contains.
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
    plugins: Mapping[str, str]


def manifest_json(plan: Plan, *, argv: Sequence[str], commit: str | None) -> str:
    """Return the manifest of a plan as JSON. `commit` is that of the working directory, None outside of Git."""
    whole = plan.whole or plan
    ids = [point.config.run_id for point in whole.points]
    points = [
        {"label": point.label, "values": dict(point.values), "run_id": run_id}
        for point, run_id in zip(whole.points, ids, strict=True)
    ]
    runs = {run_id: point.config.to_dict() for point, run_id in zip(whole.points, ids, strict=True)}
    description = {name: getattr(whole, name) for name in ("name", "title", "folder", "axes", "warnings")}
    return to_json_of_rows(
        {"normexp": normexp.__version__, "schema": SCHEMA, "commit": commit, "argv": list(argv)}
        | description
        | ({"shard": plan.shard} if plan.shard else {})
        | ({"plugins": dict(whole.plugins)} if whole.plugins else {})
        | {"pivot": whole.pivot, "published": whole.published, "points": points, "runs": runs}
    )


class Newer(ValueError):
    """The manifest was written by a newer version and must not be overwritten."""


@functools.lru_cache(maxsize=1)
def parse(text: str) -> Manifest:
    """Parse a manifest. The latest is cached, because commands read it several times.

    Raises ValueError if it is not a manifest, Newer if it was written by a newer version.
    """
    data = from_json(text)
    missing = {"normexp", "schema", "points", "runs", "axes"} - set(data)
    if missing:
        raise ValueError(f"not a normexp manifest: missing {', '.join(sorted(missing))}")
    if typed(int, data["schema"], "schema") > SCHEMA:
        raise Newer(f"written by normexp {data['normexp']}, in a format that this version cannot read")
    manifest: Manifest = typed(Manifest, {"argv": [], "shard": None, "plugins": {}} | data, "")
    return manifest


def run_ids(manifest: Manifest) -> list[str]:
    """Return the distinct run ids of the folder in the order of the points."""
    ids, shard = dict.fromkeys(point.run_id for point in manifest.points), manifest.shard
    return [run_id for run_id in ids if shard is None or shard.has(run_id)]


def plan_of(manifest: Manifest, source: str) -> Plan:
    """Return the plan of a manifest.

    Raises ValueError if a config does not match its run id, or if a point or key is invalid.
    """
    configs = {run_id: config_from(stored) for run_id, stored in manifest.runs.items()}
    for run_id, config in configs.items():
        if config.run_id != run_id:
            if config.plugins():
                raise UnknownRow(f"{run_id} needs another version of its plugin: load that one with --plugin")
            raise ValueError(f"the config of {run_id} belongs to {config.run_id}")
    missing = [point.run_id for point in manifest.points if point.run_id not in configs]
    if missing:
        raise ValueError(f"a point refers to {missing[0]}, which is not among the runs")
    pivot_keys = set() if manifest.pivot is None else {*manifest.pivot.rows, *manifest.pivot.columns} - {"label"}
    unknown = sorted((pivot_keys | set(manifest.axes)) - set(KEYS))
    if unknown:
        raise ValueError(f"unknown keys {', '.join(unknown)}")
    points = tuple(
        Point(label=point.label, values=_checked(point, manifest.axes), config=configs[point.run_id])
        for point in manifest.points
    )
    copied = ("name", "title", "folder", "axes", "pivot", "published", "plugins")
    same = {name: getattr(manifest, name) for name in copied}
    whole = Plan(points=points, source=source, warnings=manifest.warnings, argv=manifest.argv, **same)
    return whole if manifest.shard is None else whole.part(manifest.shard)


def _checked(point: StoredPoint, axes: Sequence[str]) -> dict[str, Value]:
    if set(point.values) != set(axes):
        raise ValueError(f"a point of {point.run_id} has other axes than the sweep")
    return {name: KEYS[name].check(value) for name, value in point.values.items()}


def differences(old: Configs, new: Configs, words: tuple[str, str] = ("there", "now")) -> list[str]:
    """Return a line for each key whose values differ. `words` name the two sides."""
    lines = []
    for name, key in KEYS.items():
        before = _values([config.get(name, key.neutral) for config in old.values()])
        after = _values([config.get(name, key.neutral) for config in new.values()])
        if before != after:
            lines.append(f"  {name}: {_listed(before)} {words[0]}, {_listed(after)} {words[1]}")
    return lines


def stored_form(plan: Plan) -> Configs:
    """Return the configs of a plan as stored in a manifest."""
    return {run_id: config.to_dict() for run_id, config in (plan.whole or plan).configs.items()}


def _values(values: Sequence[Any]) -> list[Any]:
    return sorted(set(values), key=lambda value: (isinstance(value, str), value))


def _listed(values: Sequence[Any]) -> str:
    texts = [str(value) for value in values[:SHOWN_VALUES]]
    rest = len(values) - len(texts)
    return ", ".join(texts) + (f" and {rest} more" if rest else "") if texts else "nothing"
