"""normexp collapse: train one network beside LayerNorm and RMSNorm baselines."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from normexp.commands import options as common
from normexp.config.keys import as_typed, with_point
from normexp.config.plan import SEED
from normexp.config.presets import COLLAPSE_DEFAULTS, SETTINGS
from normexp.config.run import KEYS
from normexp.errors import UserError
from normexp.schemes.network_config import Value

PANEL = common.Panel.RUN
EXAMPLE = "normexp collapse --layers 20 --norm none --dry-run"

NORM = "norm"
OPTION_NAMES = {"depth": "layers"}
"""Run keys with a second option name."""


def _collapse(
    setting: str,
    out: Path,
    jobs: int | None,
    dry_run: bool,
    force: bool,
    autograd: bool,
    executor: str,
    scheduler: str | None,
    **keys: str | None,
) -> None:
    """Train a network on three seeds beside LN and RMSNorm baselines, and report whether, when and where it breaks.

    The default is a Transformer with lr 1e-2. Every config key is an option, e.g. --norm none --lr 1e-4.
    """
    given = locals()
    from normexp.analysis.collapse import plan_of
    from normexp.runner.run_selection import Options
    from normexp.terminal.show import execute_collapse, say, show_dry_run

    if setting not in SETTINGS:
        raise UserError(f"--setting {setting}: there are {', '.join(SETTINGS)}")
    values: dict[str, Value] = {}
    complaints = []
    for name, text in keys.items():
        if text is not None and ("," in text or text.startswith("[")):
            decimal = with_point(text)
            advice = f"for a decimal write {decimal}" if decimal else "`normexp sweep` takes several"
            complaints.append(f"--{_option(name)} {text}: collapse takes one value; {advice}")
        elif text is not None:
            try:
                values[name] = KEYS[name].parse(text)
            except ValueError as fault:
                complaints.append(f"--{_option(name)}: {fault}")
    if complaints:
        raise UserError(*complaints)
    options = Options.of(given, argv=sys.argv)
    plan = plan_of(setting, values)
    for warning in plan.warnings:
        say(f"warning: {warning}")
    if dry_run:
        show_dry_run(plan, options)
        return
    raise typer.Exit(execute_collapse(plan, options))


def _option(name: str) -> str:
    return OPTION_NAMES.get(name, name).replace("_", "-")


def _default(name: str) -> str:
    """Return the default of a run key in the default setting, and in others if it differs there."""
    if name in (NORM, SEED):
        return {NORM: "none", SEED: "0, 1 and 2"}[name]
    defaults: dict[str, list[str]] = {}
    for word, setting in SETTINGS.items():
        values = {"lr": setting.collapse_lr, **COLLAPSE_DEFAULTS, **setting.keys_at(KEYS["position"].default)}
        defaults.setdefault(as_typed(values.get(name, KEYS[name].default)), []).append(word)
    first, *others = defaults.items()
    return ", ".join([first[0], *(f"{value} with {' and '.join(words)}" for value, words in others)])


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _with_run_keys(function: Callable[..., None]) -> Callable[..., None]:
    """Return the command with an option for every run key."""
    setting = Annotated[str, typer.Option(help=f"Preset of the network: {', '.join(SETTINGS)}.")]
    parameters = [
        _parameter("setting", setting, "as-a-transformer"),
        _parameter("out", common.Out, common.OUT),
        _parameter("jobs", common.Jobs, None),
        _parameter("dry_run", common.DryRun, False),
        _parameter("force", common.Force, False),
        _parameter("autograd", common.Autograd, False),
        _parameter("executor", common.Executor, "processes"),
        _parameter("scheduler", common.Scheduler, None),
        _parameter("plugin", common.Plugins, None),
    ]
    for name, key in KEYS.items():
        spellings = dict.fromkeys((f"--{_option(name)}", f"--{name.replace('_', '-')}"))
        values = "see normexp schemes" if key.extensible else key.limits()
        text = f"{key.help} ({values}; default: {_default(name)})"
        option = typer.Option(*spellings, help=text, rich_help_panel=common.RUN_KEYS)
        parameters.append(_parameter(name, Annotated[str | None, option], None))

    def command(plugin: Any = None, **values: Any) -> None:
        function(**values)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__, command.__name__ = function.__doc__, function.__name__.lstrip("_")
    return command


command = _with_run_keys(_collapse)
