"""manifest.json: what a results folder is about, complete enough to report it without its YAML."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import normexp
from normexp.plan import Pivot, Plan, Point, Published
from normexp.results.codec import SCHEMA, config_from, from_json, to_json
from normexp.run import KEYS

Configs = Mapping[str, Mapping[str, Any]]
"""Run id to config, as stored."""

SHOWN_VALUES = 8


def manifest_json(plan: Plan, *, argv: Sequence[str], commit: str | None) -> str:
    """The manifest of a plan. `commit` is that of the working directory, None outside of Git."""
    ids = [point.config.run_id for point in plan.points]
    points = [
        {"label": point.label, "values": dict(point.values), "run_id": run_id}
        for point, run_id in zip(plan.points, ids, strict=True)
    ]
    runs = {run_id: point.config.to_dict() for point, run_id in zip(plan.points, ids, strict=True)}
    described = {name: getattr(plan, name) for name in ("name", "title", "folder", "axes", "warnings")}
    return to_json(
        {"normexp": normexp.__version__, "schema": SCHEMA, "commit": commit, "argv": list(argv)}
        | described
        | {"pivot": plan.pivot, "published": plan.published, "points": points, "runs": runs}
    )


def parse(text: str) -> dict[str, Any]:
    """A manifest as plain data. Raises ValueError where it is not one, or a newer program's."""
    manifest = from_json(text)
    missing = {"normexp", "schema", "points", "runs", "axes"} - set(manifest)
    if missing:
        raise ValueError(f"not a normexp manifest: no {', '.join(sorted(missing))}")
    if manifest["schema"] > SCHEMA:
        raise ValueError(f"written by normexp {manifest['normexp']}, whose layout this version cannot read")
    return manifest


def run_ids(manifest: Mapping[str, Any]) -> list[str]:
    """The distinct runs, in the order in which the points ask for them."""
    return list(dict.fromkeys(point["run_id"] for point in manifest["points"]))


def plan_of(manifest: Mapping[str, Any], source: str) -> Plan:
    """The plan back. Raises ValueError where a config is not that of its run id."""
    configs = {run_id: config_from(stored) for run_id, stored in manifest["runs"].items()}
    for run_id, config in configs.items():
        if config.run_id != run_id:
            raise ValueError(f"the config of {run_id} is that of {config.run_id}")
    pivot = manifest["pivot"]
    return Plan(
        name=manifest["name"],
        title=manifest["title"],
        folder=manifest["folder"],
        axes=tuple(manifest["axes"]),
        points=tuple(
            Point(label=point["label"], values=point["values"], config=configs[point["run_id"]])
            for point in manifest["points"]
        ),
        source=source,
        pivot=None if pivot is None else Pivot(rows=tuple(pivot["rows"]), columns=tuple(pivot["columns"])),
        published=tuple(Published(**item) for item in manifest["published"]),
        warnings=tuple(manifest["warnings"]),
    )


def differences(old: Configs, new: Configs) -> list[str]:
    """A line for each key whose set of values is not the same in both."""
    lines = []
    for name, key in KEYS.items():
        before = _values([config.get(name, key.neutral) for config in old.values()])
        after = _values([config.get(name, key.neutral) for config in new.values()])
        if before != after:
            lines.append(f"  {name}: {_listed(before)} there, {_listed(after)} now")
    return lines


def stored_form(plan: Plan) -> Configs:
    """The configs of a plan as a manifest would hold them."""
    return {run_id: dataclasses.asdict(config) for run_id, config in plan.configs.items()}


def _values(values: Sequence[Any]) -> list[Any]:
    return sorted(set(values))


def _listed(values: Sequence[Any]) -> str:
    texts = [str(value) for value in values[:SHOWN_VALUES]]
    rest = len(values) - len(texts)
    return ", ".join(texts) + (f" and {rest} more" if rest else "") if texts else "nothing"
