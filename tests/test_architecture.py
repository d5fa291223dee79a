"""Which module may import which. Imports inside functions and under TYPE_CHECKING count: both tie modules together."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "normexp"
LAYERS = (
    "errors",
    "schemes",
    "config",
    "records",
    "data",
    "model",
    "training",
    "storage",
    "execution",
    "analysis",
    "plots",
    "claims",
    "texts",
    "report",
    "runner",
    "terminal",
    "api",
    "commands",
    "reference",
    "__main__",
)
"""The packages and loose modules from the bottom up: each imports only from those before it."""
MOST_LOOSE_MODULES = 3
TORCH_SIDE = ("model", "training", "texts")
TORCH_FRONTIER = {
    "execution.worker",
    "execution.pool.preload",
    "commands.bench",
    "commands.convert",
    "commands.probe",
    "claims.calculations",
}
"""Modules outside of the torch side that import it: inside functions only, or by name (preload)."""
FILE_ACCESS = {
    "claims.files",
    "commands.app",
    "config.plugins",
    "config.sweep_file",
    "config.yaml_file",
    "execution.machine",
    "execution.pool.child",
    "execution.pool.pool",
    "execution.pool.preload",
    "reference",
    "report.html",
    "schemes.models",
    "analysis.frames",
    "training.paths.compiled.library",
}
"""Modules outside of `storage` that read or write files."""
FILE_CALLS = {"open", "read_text", "write_text", "read_bytes", "write_bytes", "unlink", "mkdir", "rename"}


def modules() -> dict[str, Path]:
    """Dotted name without the package to path; the package itself is left out."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        if name:
            found[name] = path
    return found


MODULES = modules()


def imports(name: str) -> Iterator[str]:
    """Every module that a module imports, wherever the import stands."""
    for node in ast.walk(ast.parse(MODULES[name].read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_imports(name: str) -> set[str]:
    """Those of the package; a package is named only where none of its modules is."""
    found = {target.removeprefix("normexp.") for target in imports(name) if target.startswith("normexp.")}
    found = {target for target in found if target in MODULES and target != name}
    return {target for target in found if not any(other.startswith(f"{target}.") for other in found)}


def layer(name: str) -> int:
    return LAYERS.index(name.split(".")[0])


def is_torch_side(name: str) -> bool:
    return name.split(".")[0] in TORCH_SIDE


def test_there_are_no_import_circles() -> None:
    order = list(TopologicalSorter({name: own_imports(name) for name in MODULES}).static_order())
    assert {*order} >= {*MODULES}


@pytest.mark.parametrize("name", MODULES)
def test_imports_run_one_way(name: str) -> None:
    assert not [target for target in own_imports(name) if layer(target) > layer(name)]


def test_few_modules_are_loose() -> None:
    loose = [name for name in MODULES if "." not in name and MODULES[name].name != "__init__.py" and name != "__main__"]
    assert len(loose) <= MOST_LOOSE_MODULES, loose


@pytest.mark.parametrize("name", MODULES)
def test_torch_stays_on_its_side(name: str) -> None:
    if is_torch_side(name) or name in TORCH_FRONTIER:
        return
    assert not [target for target in imports(name) if target.split(".")[0] == "torch"]
    assert not [target for target in own_imports(name) if is_torch_side(target)]


@pytest.mark.parametrize("name", MODULES)
def test_only_commands_import_typer(name: str) -> None:
    if not name.startswith("commands"):
        assert not [target for target in imports(name) if target.split(".")[0] == "typer"]


@pytest.mark.parametrize("name", MODULES)
def test_files_are_read_and_written_in_few_places(name: str) -> None:
    if name in FILE_ACCESS or name.startswith("storage"):
        return
    calls = [node.func for node in ast.walk(ast.parse(MODULES[name].read_text("utf-8"))) if isinstance(node, ast.Call)]
    attributes = {call.attr for call in calls if isinstance(call, ast.Attribute)}
    names = {call.id for call in calls if isinstance(call, ast.Name)}
    assert not FILE_CALLS & (attributes | names)


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["list", "--out", "{folder}"], ["schemes"], ["models"], ["sweep", "--help"], ["claims", "--help"]],
)
def test_reading_commands_do_not_load_torch(arguments: list[str], tmp_path: Path) -> None:
    code = (
        "import sys, normexp.commands.app\n"
        f"sys.argv = ['normexp', *{[a.format(folder=tmp_path) for a in arguments]!r}]\n"
        "try:\n    normexp.commands.app.main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "print('LOADED', sorted(m for m in ('torch', 'pandas', 'matplotlib', 'scipy') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip().endswith("LOADED []"), done.stdout + done.stderr
