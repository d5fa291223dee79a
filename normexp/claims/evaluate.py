"""Claims put to the test: each with its runs, its calculation or its source, to a verdict."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from normexp.claims.calculations import calculate
from normexp.claims.cell_stats import Mismatch, Thin
from normexp.claims.checks import CHECKS, Takes
from normexp.claims.claim import Claim, ClaimFile, Finding, Kind, Selection, Verdict, judge
from normexp.claims.evidence import QUICK_OVERRIDES, Evidence, plans
from normexp.claims.files import called
from normexp.claims.parser import SETTING
from normexp.config import plugins
from normexp.config.groups import scaled_values
from normexp.config.keys import as_typed
from normexp.config.labels import exact_text
from normexp.config.plan import LABEL, Plan, selected
from normexp.config.run import KEYS, RunConfig
from normexp.errors import UserError


def judged(
    file: ClaimFile,
    claims: Iterable[Claim],
    out: Path,
    *,
    scale: float = 1.0,
    warn: Callable[[str], None] = lambda warning: None,
) -> list[Verdict]:
    """A verdict for each claim, from what is stored under `out`; a scale other than 1 reads quick runs alone.

    `warn` is called for each stored file that is damaged.
    Raises UserError where a sweep file cannot be read, or a claim's selection fits no point or several cells.
    """
    chosen = list(claims)
    found = plans(file, {stem for claim in chosen for stem in claim.sweeps}, scale=scale)
    evidence, complaints, verdicts = Evidence(out), [], []
    for claim in chosen:
        try:
            verdicts.append(judge(claim, _findings(claim, found, evidence, scale), quick=scale != 1.0))
        except Mismatch as fault:
            complaints.append(f"{claim.place}: {claim.id}: {fault}")
    for warning in evidence.warnings:
        warn(warning)
    if complaints:
        raise UserError(*complaints)
    return verdicts


def circumstances(claim: Claim, scale: float = 1.0) -> dict[str, Selection]:
    """Name to selection, under `setting` the label: each setting of the claim, then what stands under elsewhere."""
    where = {name: {**claim.where, SETTING: (name,)} for name in claim.settings}
    where |= {name: {**claim.where, **changed} for name, changed in claim.elsewhere.items()}
    return {name: _scaled(selection, scale) for name, selection in where.items()}


def work(
    file: ClaimFile, claims: Iterable[Claim], scale: float = 1.0, *, alone: bool = False
) -> Iterator[tuple[Plan, tuple[str, ...]]]:
    """The plans that claims read, in the file's order, each with the `--only` texts of what is needed of it.

    `alone` for one claim: its points and no others, once for each of its circumstances that differ.
    """
    chosen = list(claims)
    for plan in plans(file, {stem for claim in chosen for stem in claim.sweeps}, scale=scale).values():
        for only in _needed(plan, chosen, scale) if alone else [()]:
            yield plan, only


def missing(
    file: ClaimFile, claims: Iterable[Claim], out: Path, scale: float = 1.0, *, alone: bool = False
) -> tuple[list[RunConfig], int]:
    """The runs that claims read and that have no current result under `out`, and how many they read in all."""
    evidence, needed, lacking = Evidence(out), set(), {}
    for plan, only in work(file, claims, scale, alone=alone):
        records = evidence.records(plan)
        for run_id in selected(plan, only):
            needed.add(run_id)
            if run_id not in records or not records[run_id].usable:
                lacking[run_id] = plan.configs[run_id]
    return list(lacking.values()), len(needed)


def commands(file: ClaimFile, claim: Claim, out: Path, scale: float = 1.0) -> list[str]:
    """The shell commands that repeat a claim's runs or its calculation, from any folder."""
    if claim.kind is Kind.COMPUTE:
        return [f"normexp claims {shlex.quote(called(file))} {shlex.quote(claim.id)}{plugins.options()}"]
    quick = "" if scale == 1.0 else f" {' '.join(QUICK_OVERRIDES)} --scale {exact_text(scale)}"
    return [
        f"normexp sweep {shlex.quote(str(file.sweeps[stem]))}{quick} --out {shlex.quote(str(out))}"
        + "".join(f" --only {shlex.quote(text)}" for text in only)
        + plugins.options()
        for stem, plan in plans(file, claim.sweeps, scale=scale).items()
        for only in _needed(plan, [claim], scale)
    ]


def _needed(plan: Plan, claims: Iterable[Claim], scale: float) -> list[tuple[str, ...]]:
    """Circumstances as `--only` texts, where the plan has a point of them."""
    found: dict[tuple[str, ...], None] = {}
    for claim in claims:
        for selection in circumstances(claim, scale).values():
            named = {LABEL if key == SETTING else key: values for key, values in selection.items() if values != ("",)}
            if any(all(point.value_of(key) in values for key, values in named.items()) for point in plan.points):
                found[tuple(f"{key}={as_typed(value)}" for key, values in named.items() for value in values)] = None
    return list(found)


def _findings(claim: Claim, found: Mapping[str, Plan], evidence: Evidence, scale: float) -> list[Finding]:
    if claim.kind is Kind.CITED:
        return []
    if claim.kind is Kind.COMPUTE:
        return _calculated(claim)
    check = CHECKS[claim.check]
    parameters = {name: _scaled_parameter(check.takes[name], value, scale) for name, value in claim.parameters.items()}
    measures = {str(value) for name, value in parameters.items() if check.takes[name] is Takes.MEASURE}
    frame = evidence.frame([found[stem] for stem in claim.sweeps], sorted(measures))
    needed = claim.seeds if scale == 1.0 else 1
    findings = []
    for name, selection in circumstances(claim, scale).items():
        here = frame
        for key, values in selection.items():
            here = here[here[key].isin(values)]
        if here.empty:
            raise Mismatch(f"{name or 'its sweeps'}: no point has what where asks for")
        try:
            finding = check.function(here, needed, **parameters)
        except Thin as lack:
            finding = Finding(holds=None, measured="not enough runs", sentence=str(lack))
        findings.append(_named(finding, name))
    return findings


def _calculated(claim: Claim) -> list[Finding]:
    figures = claim.parameters.get("figures", ())
    try:
        return [calculate(claim.check, seed, figures) for seed in range(claim.seeds)]
    except (ArithmeticError, IndexError, RuntimeError, ValueError) as error:
        if not figures:
            raise
        raise Mismatch(f"{claim.check} cannot be made with figures {', '.join(figures)}: {error}") from error


def _named(finding: Finding, setting: str) -> Finding:
    return replace(finding, setting=setting)


def _scaled_parameter(takes: Takes, value: Any, scale: float) -> Any:
    if takes is Takes.STEPS:
        return scaled_values({"steps": value}, scale)["steps"]
    return _scaled(value, scale) if takes is Takes.SELECTION else value


def _scaled(selection: Selection, scale: float) -> Selection:
    """Updates in a selection, as a shortened sweep has them."""
    if scale == 1.0:
        return selection
    return {
        key: tuple(scaled_values({key: value}, scale)[key] for value in values) if key in KEYS else values
        for key, values in selection.items()
    }
