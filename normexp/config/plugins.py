"""Norms and schemes from a user's Python file.

A plugin is a file with a table NORMS (name to `normexp.schemes.Norm`, with `make`), a table SCHEMES (name to
`normexp.schemes.Scheme`), or both. Its text travels to every worker, and its hash is part of the id of each run that
uses one of its rows; what it imports is not. It is run as a program of the user's own: only files named by the user are
ever loaded.
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
    """A file's name, for messages, and its text."""

    path: str
    text: str

    @property
    def digest(self) -> str:
        """16 hex digits of sha256 over the text: the origin of the plugin's rows."""
        return digest(self.text.encode())


def digest(text: bytes) -> str:
    """What a plugin is known by."""
    return hashlib.sha256(text).hexdigest()[:16]


FORMER_MODULES = {
    "normexp.norms": "normexp.schemes.norms",
    "normexp.run": "normexp.config.run",
    "normexp.nn": "normexp.model",
    "normexp.nn.norms": "normexp.model.norms",
    "normexp.nn.rmsnorm": "normexp.model.rms_norm",
}
"""Modules that plugins imported from in older versions. A stored plugin keeps its text: its hash is in run ids."""

_loaded: dict[str, Plugin] = {}


def loaded() -> tuple[Plugin, ...]:
    """The plugins that this process has added, in order."""
    return tuple(_loaded.values())


def options() -> str:
    """How a command is given the same plugins: ` --plugin FILE` for each, for a shell."""
    return "".join(f" --plugin {shlex.quote(plugin.path)}" for plugin in loaded())


def read(path: Path) -> Plugin:
    """A plugin from its file. Raises UserError where there is no text to read."""
    try:
        return Plugin(str(path), path.read_bytes().decode("utf-8"))
    except OSError as fault:
        raise UserError(f"--plugin {path}: {fault.strerror or fault}") from fault
    except UnicodeDecodeError as fault:
        raise UserError(f"--plugin {path}: not a text file in UTF-8") from fault


def add(plugin: Plugin) -> None:
    """Run the file and add its rows to the tables: all of them or none. A second time changes nothing.

    Raises UserError with file and line where it cannot be run, or a row cannot be used.
    """
    if plugin.digest in _loaded:
        return
    module = types.ModuleType(f"normexp_plugin_{plugin.digest}")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        found = _found(plugin, module)
    except UserError:
        sys.modules.pop(module.__name__, None)
        raise
    for table, name, row in found:
        table.add(name, row, plugin.digest)
    _loaded[plugin.digest] = plugin


def _found(plugin: Plugin, module: types.ModuleType) -> list[tuple[Registry[Any], str, Any]]:
    """Table, name and row of all that the file adds. Raises UserError where it cannot be used."""
    _run(plugin, module)
    found: list[tuple[Registry[Any], str, Any]] = [
        (table, name, row)
        for table, kind, attribute in ((NORMS, Norm, "NORMS"), (SCHEMES, Scheme, "SCHEMES"))
        for name, row in _rows(plugin, module, attribute, kind)
    ]
    if not found:
        raise UserError(f"{plugin.path}: adds nothing: write NORMS = {{...}} or SCHEMES = {{...}} at its top level")
    complaints = [fault for table, name, row in found for fault in _faults(plugin, table, name, row)]
    if complaints:
        raise UserError(*(f"{plugin.path}: {complaint}" for complaint in complaints))
    return found


@contextmanager
def using(plugin: Plugin) -> Iterator[None]:
    """The plugin's rows are there while this is open: for tests and notebooks. Raises UserError, see `add`."""
    known = plugin.digest in _loaded
    add(plugin)
    try:
        yield
    finally:
        if not known:
            for table in (NORMS, SCHEMES):
                table.remove(plugin.digest)
            del _loaded[plugin.digest]


def _run(plugin: Plugin, module: types.ModuleType) -> None:
    module.__file__ = plugin.path
    for former, today in FORMER_MODULES.items():
        sys.modules.setdefault(former, importlib.import_module(today))
    try:
        exec(compile(plugin.text.removeprefix("\ufeff"), plugin.path, "exec"), module.__dict__)
    except SyntaxError as fault:
        line = f":{fault.lineno}" if fault.lineno else ""
        raise UserError(f"{fault.filename or plugin.path}{line}: {fault.msg}") from fault
    except (Exception, SystemExit) as fault:
        raise UserError(_told(plugin, fault)) from fault


def _told(plugin: Plugin, fault: BaseException) -> str:
    """`file:line: Type: message`, the line being the last one in the plugin itself."""
    lines = [frame.lineno for frame in traceback.extract_tb(fault.__traceback__) if frame.filename == plugin.path]
    return f"{plugin.path}{f':{lines[-1]}' if lines else ''}: {type(fault).__name__}: {fault}"


def blamed(fault: BaseException) -> str:
    """`file:line: Type: message` where a fault came out of a loaded plugin; empty for any other."""
    frames = traceback.extract_tb(fault.__traceback__)
    return next((_told(p, fault) for p in loaded() if any(frame.filename == p.path for frame in frames)), "")


def _rows(plugin: Plugin, module: types.ModuleType, attribute: str, kind: type) -> Iterator[tuple[str, Any]]:
    table = getattr(module, attribute, {})
    if not isinstance(table, Mapping):
        raise UserError(f"{plugin.path}: {attribute} is not a dict of names and rows")
    for name, row in table.items():
        if not isinstance(row, kind):
            wanted = f"normexp.schemes.{kind.__name__}"
            raise UserError(
                f"{plugin.path}: {attribute}[{name!r}] is of type {type(row).__name__}: write {wanted}(...)"
            )
        yield str(name), row


def _faults(plugin: Plugin, table: Registry[Any], name: str, row: Any) -> Iterator[str]:
    checks: list[Callable[[], None]] = [lambda: table.check(name, plugin.digest)]
    checks.append((lambda: _try_scheme(row)) if isinstance(row, Scheme) else (lambda: _try_norm(row)))
    for check in checks:
        try:
            check()
        except ValueError as fault:
            yield f"{table.noun} {name!r}: {fault}"
        except (Exception, SystemExit) as fault:
            yield f"{table.noun} {name!r}: {_told(plugin, fault)}"


def _check_call(name: str, function: Any, *parameters: str) -> None:
    """Raise ValueError where a function cannot be called with these parameters, in this order."""
    wanted = f"write lambda {', '.join(parameters)}: ..."
    if not callable(function):
        raise ValueError(f"{name} is {function!r}, which cannot be called: {wanted}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of what is written in C, Python may not know
        return
    try:
        signature.bind(*parameters)
    except TypeError:
        raise ValueError(f"{name} takes {signature}, and is called with ({', '.join(parameters)}): {wanted}") from None


def _try_norm(row: Norm) -> None:
    _check_keys(row.keys, KEYS)
    if row.make is None:
        raise ValueError("its row has no make: write Norm(make=lambda width, run: ..., help=..., source=...)")
    _check_call("make", row.make, "width", "run")
    module = row.make(TRIED_WIDTH, Reading(RunConfig(), row.keys))
    if not hasattr(module, "named_parameters"):
        raise ValueError(f"make gave a {type(module).__name__}, not a torch.nn.Module")
    _check_call("its module's forward", module.forward, "x")
    x = sys.modules["torch"].ones(2, 3, TRIED_WIDTH)  # loaded, since the module is of it
    y = module(x)
    if getattr(y, "shape", None) != x.shape:
        given = tuple(y.shape) if hasattr(y, "shape") else type(y).__name__
        raise ValueError(f"its module gave {given} for an input {tuple(x.shape)}: write a norm that keeps the shape")


def _try_scheme(row: Scheme) -> None:
    _check_keys(row.keys, INTERACTING)
    if not isinstance(row.gains, Mapping):
        raise ValueError(f"gains is {row.gains!r}: write a dict of role and lambda depth: ...")
    strange = [name for name, scale in row.scales("ffn").items() if not isinstance(scale, Scale)]
    strange += [f"gains of {role!r}" for role in row.gains if role not in ROLES]
    _check_call("doors", row.doors, "site")
    if strange:
        raise ValueError(f"{', '.join(strange)}: write scales as Scale(...), and gains of {', '.join(ROLES)}")
    for name, scale in row.scales("ffn").items():
        _check_call(f"the value of the scale {name}", scale.value, "site")
    for role, gain in row.gains.items():
        _check_call(f"the gain of {role!r}", gain, "depth")
    for depth in TRIED_DEPTHS:
        for site in row.sites(RunConfig(depth=depth)):
            try:
                doors, constants = row.doors(site), row.constants(site)
            except KeyError as fault:
                raise ValueError(f"reads the key {fault}: name it in keys=frozenset({{{fault}}})") from fault
            if not isinstance(doors, frozenset | set):
                raise ValueError(
                    f"doors gave {doors!r} at {site}: write a set of doors, such as frozenset({{'before'}})"
                )
            unknown = sorted(set(doors) - set(DOORS))
            if unknown:
                raise ValueError(f"opens {', '.join(map(str, unknown))}: doors are {', '.join(DOORS)}")
            for constant, value in constants.items():
                if not isinstance(value, int | float) or not math.isfinite(value):
                    raise ValueError(f"{constant} is {value!r} at {site}: write a finite number")


def _check_keys(keys: Iterable[str], known: Iterable[str]) -> None:
    if isinstance(keys, str):
        raise ValueError(f"keys is the text {keys!r}: write frozenset({{{keys!r}}})")
    unknown = sorted(set(keys) - set(known))
    if unknown:
        raise ValueError(f"keys: {', '.join(map(str, unknown))}: it may read {', '.join(known)}")
