"""Evaluate claims: collect the runs of each, apply its check or calculation, and judge the findings."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normexp.claims.calculations import calculate
from normexp.claims.cell_stats import Mismatch, Thin
from normexp.claims.checks import CHECKS, Takes
from normexp.claims.claim import Claim, ClaimFile, Decision, Finding, Kind, Selection, Verdict, judge
from normexp.claims.evidence import QUICK_OVERRIDES, Evidence, at_threshold, plans
from normexp.claims.files import called
from normexp.claims.parser import SETTING
from normexp.config import plugins
from normexp.config.groups import scaled_values
from normexp.config.keys import as_typed
from normexp.config.labels import exact_text
from normexp.config.plan import LABEL, Plan, selected
from normexp.config.run import KEYS, RunConfig
from normexp.errors import UserError
from normexp.records.outcome import LEARNED_FRACTION

if TYPE_CHECKING:
    import pandas as pd

OTHER_THRESHOLDS = (0.02, 0.05)
"""Sweep claims are also judged with these thresholds of `learned`, to see whether their verdict depends on it."""


def judged(
    file: ClaimFile,
    claims: Iterable[Claim],
    out: Path,
    *,
    scale: float = 1.0,
    warn: Callable[[str], None] = lambda warning: None,
) -> list[Verdict]:
    """Return a verdict for each claim, from the runs stored under `out`. A scale other than 1 uses only quick runs.

    `warn` is called for each damaged file, and for each word of an earlier version in the claims file. Raises UserError
    if a sweep file cannot be read, or if the selection of a claim matches no point or several cells.
    """
    chosen = list(claims)
    sweep_plans = plans(file, {stem for claim in chosen for stem in claim.sweeps}, scale=scale)
    evidence, complaints, verdicts = Evidence(out), [], []
    for claim in chosen:
        try:
            verdicts.append(_judged(claim, sweep_plans, evidence, scale))
        except Mismatch as fault:
            complaints.append(f"{claim.place}: {claim.id}: {fault}")
    for warning in [*file.warnings, *evidence.warnings]:
        warn(warning)
    if complaints:
        raise UserError(*complaints)
    return verdicts


def circumstances(claim: Claim, scale: float = 1.0) -> dict[str, Selection]:
    """Return the selection of each setting of a claim, then of each condition in `elsewhere`, by name.

    Labels are under the key `setting`.
    """
    where = {name: {**claim.where, SETTING: (name,)} for name in claim.settings}
    where |= {name: {**claim.where, **changed} for name, changed in claim.elsewhere.items()}
    return {name: _scaled(selection, scale) for name, selection in where.items()}


def work(
    file: ClaimFile, claims: Iterable[Claim], scale: float = 1.0, *, alone: bool = False
) -> Iterator[tuple[Plan, tuple[str, ...]]]:
    """Yield the plans that claims need, in the order of the file, each with its `--only` filters.

    With `alone`, for a single claim, a plan is limited to the points of the claim, and yielded once per selection.
    """
    chosen = list(claims)
    for plan in plans(file, {stem for claim in chosen for stem in claim.sweeps}, scale=scale).values():
        for only in _needed(plan, chosen, scale) if alone else [()]:
            yield plan, only


def missing(
    file: ClaimFile, claims: Iterable[Claim], out: Path, scale: float = 1.0, *, alone: bool = False
) -> tuple[list[RunConfig], int]:
    """Return the runs of claims that have no current result under `out`, and the number of all runs of the claims."""
    evidence, needed, lacking = Evidence(out), set(), {}
    for plan, only in work(file, claims, scale, alone=alone):
        records = evidence.records(plan)
        for run_id in selected(plan, only):
            needed.add(run_id)
            if run_id not in records or not records[run_id].usable:
                lacking[run_id] = plan.configs[run_id]
    return list(lacking.values()), len(needed)


def commands(file: ClaimFile, claim: Claim, out: Path, scale: float = 1.0) -> list[str]:
    """Return the shell commands that repeat the runs or the calculation of a claim."""
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
    """Return the `--only` filters of the claims' selections that match a point of the plan."""
    filters: dict[tuple[str, ...], None] = {}
    for claim in claims:
        for selection in circumstances(claim, scale).values():
            named = {LABEL if key == SETTING else key: values for key, values in selection.items() if values != ("",)}
            if any(all(point.value_of(key) in values for key, values in named.items()) for point in plan.points):
                filters[tuple(f"{key}={as_typed(value)}" for key, values in named.items() for value in values)] = None
    return list(filters)


def _judged(claim: Claim, sweep_plans: Mapping[str, Plan], evidence: Evidence, scale: float) -> Verdict:
    if claim.kind is not Kind.SWEEP:
        return judge(claim, _calculated(claim) if claim.kind is Kind.COMPUTE else [], quick=scale != 1.0)
    by_threshold = _findings(claim, sweep_plans, evidence, scale)
    verdicts = {threshold: judge(claim, findings, quick=scale != 1.0) for threshold, findings in by_threshold.items()}
    texts = {f"{100 * threshold:g} %": verdicts[threshold].text for threshold in OTHER_THRESHOLDS}
    return replace(verdicts[LEARNED_FRACTION], by_threshold=texts)


def _findings(
    claim: Claim, sweep_plans: Mapping[str, Plan], evidence: Evidence, scale: float
) -> dict[float, list[Finding]]:
    """Return the findings of a sweep claim, one per setting and condition, by the threshold of `learned`."""
    check = CHECKS[claim.check]
    parameters = {name: _scaled_parameter(check.takes[name], value, scale) for name, value in claim.parameters.items()}
    measures = {str(value) for name, value in parameters.items() if check.takes[name] is Takes.MEASURE}
    frame = evidence.frame([sweep_plans[stem] for stem in claim.sweeps], sorted(measures))
    needed = claim.seeds if scale == 1.0 else 1
    findings: dict[float, list[Finding]] = {threshold: [] for threshold in (LEARNED_FRACTION, *OTHER_THRESHOLDS)}
    for name, selection in circumstances(claim, scale).items():
        selected_rows = frame
        for key, values in selection.items():
            selected_rows = selected_rows[selected_rows[key].isin(values)]
        if selected_rows.empty:
            raise Mismatch(f"{name or 'its sweeps'}: no point matches where")

        def found(rows: pd.DataFrame, setting: str = name) -> Finding:
            try:
                finding = check.function(rows, needed, **parameters)
            except Thin as error:
                finding = Finding(decision=Decision.TOO_FEW, measured="not enough runs", sentence=str(error))
            return replace(finding, setting=setting)

        stored = found(selected_rows)
        findings[LEARNED_FRACTION].append(stored)
        for threshold in OTHER_THRESHOLDS:
            rows = at_threshold(selected_rows, threshold)
            unchanged = rows["outcome"].equals(selected_rows["outcome"])
            findings[threshold].append(stored if unchanged else found(rows))
    return findings


def _calculated(claim: Claim) -> list[Finding]:
    figures = claim.parameters.get("figures", ())
    try:
        return [calculate(claim.check, seed, figures) for seed in range(claim.seeds)]
    except (ArithmeticError, IndexError, RuntimeError, ValueError) as error:
        if not figures:
            raise
        raise Mismatch(f"{claim.check} fails with figures {', '.join(figures)}: {error}") from error


def _scaled_parameter(takes: Takes, value: Any, scale: float) -> Any:
    if takes is Takes.STEPS:
        return scaled_values({"steps": value}, scale)["steps"]
    return _scaled(value, scale) if takes is Takes.SELECTION else value


def _scaled(selection: Selection, scale: float) -> Selection:
    """Return a selection with its numbers of steps scaled as in a shortened sweep."""
    if scale == 1.0:
        return selection
    return {
        key: tuple(scaled_values({key: value}, scale)[key] for value in values) if key in KEYS else values
        for key, values in selection.items()
    }
