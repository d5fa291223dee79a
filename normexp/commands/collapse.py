"""normexp collapse: train one network beside LayerNorm and RMSNorm baselines."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from normexp.commands import options as common
from normexp.config.keys import with_point
from normexp.config.presets import SETTINGS
from normexp.config.run import KEYS
from normexp.errors import UserError
from normexp.schemes.network_config import Value

PANEL = common.Panel.RUN

OPTION_NAMES = {"depth": "layers"}
"""Run keys with a second option name."""


def _collapse(
    setting: str,
    out: Path,
    jobs: int | None,
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
    from normexp.terminal.show import execute_collapse, say

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
    raise typer.Exit(execute_collapse(plan, options))


def _option(name: str) -> str:
    return OPTION_NAMES.get(name, name).replace("_", "-")


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _with_run_keys(function: Callable[..., None]) -> Callable[..., None]:
    """Return the command with an option for every run key."""
    rates = "the default lr is 1e-2 for as-a-transformer and 1e-3 for the others"
    setting = Annotated[str, typer.Option(help=f"Preset: {', '.join(SETTINGS)}; {rates}.")]
    parameters = [
        _parameter("setting", setting, "as-a-transformer"),
        _parameter("out", common.Out, common.OUT),
        _parameter("jobs", common.Jobs, None),
        _parameter("force", common.Force, False),
        _parameter("autograd", common.Autograd, False),
        _parameter("executor", common.Executor, "processes"),
        _parameter("scheduler", common.Scheduler, None),
        _parameter("plugin", common.Plugins, None),
    ]
    for name, key in KEYS.items():
        spellings = dict.fromkeys((f"--{_option(name)}", f"--{name.replace('_', '-')}"))
        values = "see normexp schemes" if key.extensible else key.limits()
        option = typer.Option(*spellings, help=f"{key.help} ({values})", rich_help_panel=common.RUN_KEYS)
        parameters.append(_parameter(name, Annotated[str | None, option], None))

    def command(plugin: Any = None, **values: Any) -> None:
        function(**values)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__, command.__name__ = function.__doc__, function.__name__.lstrip("_")
    return command


command = _with_run_keys(_collapse)
