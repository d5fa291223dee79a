"""Norms, schemes and calculations from a user's Python file.

A plugin is a file with one or more tables: NORMS (name to `normexp.schemes.Norm`, with `make`), SCHEMES (name to
`normexp.schemes.Scheme`) and CALCULATIONS (name to function, for the claims files of the user). Its text is sent to
every worker, and its hash is part of the id of each run that uses one of its norms or schemes; modules that it imports
are not. A plugin can run arbitrary code, so only files that the user names are loaded: with --plugin, or in the config
of a sweep.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import math
import shlex
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normexp.config.run import INTERACTING, KEYS, RunConfig
from normexp.errors import UserError
from normexp.schemes import DOORS, ROLES, SCHEMES, Scale, Scheme
from normexp.schemes.norms import NORMS, Norm, Reading, Registry

TRIED_DEPTHS = (1, 3, 20)
TRIED_WIDTH = 8


@dataclass(frozen=True, slots=True)
class Plugin:
    """The path of a plugin, for messages, and its text."""

    path: str
    text: str

    @property
    def digest(self) -> str:
        """16 hex digits of the SHA-256 of the text, which identify the plugin."""
        return digest(self.text.encode())


def digest(text: bytes) -> str:
    """Return the digest of a plugin's text."""
    return hashlib.sha256(text).hexdigest()[:16]


FORMER_MODULES = {
    "normexp.norms": "normexp.schemes.norms",
    "normexp.run": "normexp.config.run",
    "normexp.nn": "normexp.model",
    "normexp.nn.norms": "normexp.model.norms",
    "normexp.nn.rmsnorm": "normexp.model.rms_norm",
}
"""Former names of modules that plugins import. Stored plugins keep their text, since run ids contain its hash."""

CALCULATIONS: Registry[Callable[..., Any]] = Registry("calculation", {})
"""The calculations of plugins. Each is called with a seed, and with the printed figures if it has a parameter for them.

It returns a `normexp.claims.claim.Finding`.
"""

_loaded: dict[str, Plugin] = {}
_from_configs: set[str] = set()
"""Digests of loaded plugins that a config names. Commands that read its sweep find them without --plugin."""


def loaded() -> tuple[Plugin, ...]:
    """Return the plugins that this process has added, in order."""
    return tuple(_loaded.values())


def options() -> str:
    """Return the shell options that load the same plugins: ` --plugin FILE` for each that no config names."""
    given = (plugin for plugin in loaded() if plugin.digest not in _from_configs)
    return "".join(f" --plugin {shlex.quote(plugin.path)}" for plugin in given)


def read(path: Path, name: str = "") -> Plugin:
    """Read a plugin from its file, called `name` in messages. Raises UserError if it is not readable text."""
    name = name or f"--plugin {path}"
    try:
        return Plugin(str(path), path.read_bytes().decode("utf-8"))
    except (OSError, ValueError) as fault:
        why = "not a text file in UTF-8" if isinstance(fault, UnicodeDecodeError) else getattr(fault, "strerror", fault)
        raise UserError(f"{name}: {why or fault}") from fault


def add(plugin: Plugin, *, from_config: bool = False) -> None:
    """Run the file and add its rows to the tables: all of them or none. Adding it again changes nothing.

    Raises UserError with file and line if the file cannot be run or a row is invalid.
    """
    if from_config and plugin.digest not in _loaded:
        _from_configs.add(plugin.digest)
    elif not from_config:
        _from_configs.discard(plugin.digest)
    if plugin.digest in _loaded:
        return
    module = types.ModuleType(f"normexp_plugin_{plugin.digest}")
    sys.modules[module.__name__] = module  # dataclasses look up their module there
    try:
        rows = _checked_rows(plugin, module)
    except UserError:
        sys.modules.pop(module.__name__, None)
        raise
    for table, name, row in rows:
        table.rows.add(name, row, plugin.digest)
    _loaded[plugin.digest] = plugin


def _checked_rows(plugin: Plugin, module: types.ModuleType) -> list[tuple[_Table, str, Any]]:
    """Run the file and return table, name and row of all that it adds. Raises UserError if something is invalid."""
    _run(plugin, module)
    rows = [(table, name, row) for table in TABLES for name, row in _rows(plugin, module, table)]
    if not rows:
        names = " or ".join(f"{table.attribute} = {{...}}" for table in TABLES)
        raise UserError(f"{plugin.path}: adds nothing: write {names} at its top level")
    complaints = [fault for table, name, row in rows for fault in _faults(plugin, table, name, row)]
    if complaints:
        raise UserError(*(f"{plugin.path}: {complaint}" for complaint in complaints))
    return rows


@contextmanager
def using(plugin: Plugin) -> Iterator[None]:
    """Add the plugin's rows while the context is open, for tests and notebooks. Raises UserError like `add`."""
    known = plugin.digest in _loaded
    add(plugin)
    try:
        yield
    finally:
        if not known:
            remove(plugin)


def remove(plugin: Plugin) -> None:
    """Remove an added plugin's rows."""
    for table in TABLES:
        table.rows.remove(plugin.digest)
    del _loaded[plugin.digest]
    _from_configs.discard(plugin.digest)


def _run(plugin: Plugin, module: types.ModuleType) -> None:
    module.__file__ = plugin.path
    for former, current in FORMER_MODULES.items():
        sys.modules.setdefault(former, importlib.import_module(current))
    try:
        exec(compile(plugin.text.removeprefix("\ufeff"), plugin.path, "exec"), module.__dict__)
    except SyntaxError as fault:
        line = f":{fault.lineno}" if fault.lineno else ""
        raise UserError(f"{fault.filename or plugin.path}{line}: {fault.msg}") from fault
    except (Exception, SystemExit) as fault:
        raise UserError(_located(plugin, fault)) from fault


def _located(plugin: Plugin, fault: BaseException) -> str:
    """Return `file:line: Type: message` with the last line of the traceback that is in the plugin."""
    lines = [frame.lineno for frame in traceback.extract_tb(fault.__traceback__) if frame.filename == plugin.path]
    return f"{plugin.path}{f':{lines[-1]}' if lines else ''}: {type(fault).__name__}: {fault}"


def blamed(fault: BaseException) -> str:
    """Return `file:line: Type: message` if the exception passed through a loaded plugin, else an empty text."""
    frames = traceback.extract_tb(fault.__traceback__)
    return next((_located(p, fault) for p in loaded() if any(frame.filename == p.path for frame in frames)), "")


def _rows(plugin: Plugin, module: types.ModuleType, table: _Table) -> Iterator[tuple[str, Any]]:
    rows = getattr(module, table.attribute, {})
    if not isinstance(rows, Mapping):
        raise UserError(f"{plugin.path}: {table.attribute} is not a dict of names to rows")
    for name, row in rows.items():
        if not table.is_row(row):
            found = f"{table.attribute}[{name!r}] is a {type(row).__name__}"
            raise UserError(f"{plugin.path}: {found}: write {table.write}")
        yield str(name), row


def _faults(plugin: Plugin, table: _Table, name: str, row: Any) -> Iterator[str]:
    checks: list[Callable[[], None]] = [lambda: table.rows.check(name, plugin.digest), lambda: table.check(row)]
    for check in checks:
        try:
            check()
        except ValueError as fault:
            yield f"{table.rows.noun} {name!r}: {fault}"
        except (Exception, SystemExit) as fault:
            yield f"{table.rows.noun} {name!r}: {_located(plugin, fault)}"


def _check_call(name: str, function: Any, *parameters: str, form: str = "lambda {}: ...") -> None:
    """Raise ValueError if a function cannot be called with these positional parameters; `form` is the advice."""
    wanted = f"write {form.format(', '.join(parameters))}"
    if not callable(function):
        raise ValueError(f"{name} is {function!r}, which is not callable: {wanted}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some C functions have no signature
        return
    try:
        signature.bind(*parameters)
    except TypeError:
        raise ValueError(f"{name} takes {signature}, but is called with ({', '.join(parameters)}): {wanted}") from None


def _try_norm(row: Norm) -> None:
    _check_keys(row.keys, KEYS)
    if row.make is None:
        raise ValueError("the row has no make: write Norm(make=lambda width, run: ..., help=..., source=...)")
    _check_call("make", row.make, "width", "run")
    module = row.make(TRIED_WIDTH, Reading(RunConfig(), row.keys))
    if not hasattr(module, "named_parameters"):
        raise ValueError(f"make returned a {type(module).__name__}, not a torch.nn.Module")
    _check_call("forward of its module", module.forward, "x")
    x = sys.modules["torch"].ones(2, 3, TRIED_WIDTH)  # a torch module exists, so torch is loaded
    y = module(x)
    if getattr(y, "shape", None) != x.shape:
        shape = tuple(y.shape) if hasattr(y, "shape") else type(y).__name__
        raise ValueError(f"its module returned {shape} for an input {tuple(x.shape)}: a norm must keep the shape")


def _try_scheme(row: Scheme) -> None:
    _check_keys(row.keys, INTERACTING)
    if not isinstance(row.gains, Mapping):
        raise ValueError(f"gains is {row.gains!r}: write a dict of roles to lambda depth: ...")
    invalid = [name for name, scale in row.scales("ffn").items() if not isinstance(scale, Scale)]
    invalid += [f"gains of {role!r}" for role in row.gains if role not in ROLES]
    _check_call("doors", row.doors, "site")
    if invalid:
        raise ValueError(f"{', '.join(invalid)}: write scales as Scale(...), and gains only of {', '.join(ROLES)}")
    for name, scale in row.scales("ffn").items():
        _check_call(f"the value of the scale {name}", scale.value, "site")
    for role, gain in row.gains.items():
        _check_call(f"the gain of {role!r}", gain, "depth")
    for depth in TRIED_DEPTHS:
        for site in row.sites(RunConfig(depth=depth)):
            try:
                doors, constants = row.doors(site), row.constants(site)
            except KeyError as fault:
                raise ValueError(f"reads the key {fault}: declare it in keys=frozenset({{{fault}}})") from fault
            if not isinstance(doors, frozenset | set):
                raise ValueError(f"doors returned {doors!r} at {site}: write a set, such as frozenset({{'before'}})")
            unknown = sorted(set(doors) - set(DOORS))
            if unknown:
                raise ValueError(f"unknown doors {', '.join(map(str, unknown))}: doors are {', '.join(DOORS)}")
            for constant, value in constants.items():
                if not isinstance(value, int | float) or not math.isfinite(value):
                    raise ValueError(f"{constant} is {value!r} at {site}: write a finite number")


def _try_calculation(row: Callable[..., Any]) -> None:
    parameters = ("seed", "figures") if takes_figures(row) else ("seed",)
    _check_call("the function", row, *parameters, form="def name({}): ...")
    if not (row.__doc__ or "").strip():
        raise ValueError("the function has no docstring: write one whose first line says when the calculation holds")


def takes_figures(calculation: Callable[..., Any]) -> bool:
    """Return whether the function of a calculation has a parameter `figures`."""
    try:
        return "figures" in inspect.signature(calculation).parameters
    except (TypeError, ValueError):  # some C functions have no signature
        return False


def _check_keys(keys: Iterable[str], known: Iterable[str]) -> None:
    if isinstance(keys, str):
        raise ValueError(f"keys is the text {keys!r}: write frozenset({{{keys!r}}})")
    unknown = sorted(set(keys) - set(known))
    if unknown:
        raise ValueError(f"unknown keys {', '.join(map(str, unknown))}: it may read {', '.join(known)}")


@dataclass(frozen=True, slots=True)
class _Table:
    """A table that plugins add rows to: the name of its attribute, what a row is, and the check of a row."""

    rows: Registry[Any]
    attribute: str
    is_row: Callable[[Any], bool]
    write: str
    check: Callable[[Any], None]


TABLES = (
    _Table(NORMS, "NORMS", lambda row: isinstance(row, Norm), "normexp.schemes.Norm(...)", _try_norm),
    _Table(SCHEMES, "SCHEMES", lambda row: isinstance(row, Scheme), "normexp.schemes.Scheme(...)", _try_scheme),
    _Table(CALCULATIONS, "CALCULATIONS", callable, "a function of a seed", _try_calculation),
)
"""The tables of plugins."""
