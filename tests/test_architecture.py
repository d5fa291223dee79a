"""Who may import whom. Imports inside functions count too: a lazy import hides a circle, it does not remove it."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "normexp"
TORCH_SIDE = {"nn", "program", "training"}
TORCH_FRONTIER = {"execute.worker", "execute.preload", "cli.bench", "cli.convert", "cli.probe", "claims.computed"}
"""Modules outside of the torch side that import it, inside functions only (worker, commands) or by name (preload)."""
TOUCHES_FILES = {
    "config.sweepfile",
    "config.yamlfile",
    "models",
    "results.store",
    "results.atomic",
    "results.lock",
    "results.origins",
    "results.weightfile",
    "results.wholeness",
    "results.archive",
    "results.pack",
    "results.figurefiles",
    "views.pages.pagefiles",
    "views.tables",
    "plugins",
    "reference",
    "execute.jobs",
    "execute.machine",
    "execute.process",
    "program.compiled.library",
}
LONGEST_FILE = 400


def modules() -> dict[str, Path]:
    """Dotted name without the package to path."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        found[name or "__init__"] = path
    return found


MODULES = modules()


def type_only(tree: ast.Module) -> set[ast.AST]:
    """Nodes under `if TYPE_CHECKING:`."""
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)]
    return {inner for block in blocks for inner in ast.walk(block)}


def imports(name: str) -> Iterator[str]:
    """Every module that a module imports at run time, wherever the import stands."""
    tree = ast.parse(MODULES[name].read_text("utf-8"))
    skipped = type_only(tree)
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_imports(name: str) -> set[str]:
    found = {target.removeprefix("normexp.") for target in imports(name) if target.startswith("normexp.")}
    return {target for target in found if target in MODULES and target != name}


def is_torch_side(name: str) -> bool:
    return name.split(".")[0] in TORCH_SIDE or (
        name.startswith(("texts.article.", "texts.papers.")) and not name.endswith(".calculations")
    )


def test_no_circles() -> None:
    order = list(TopologicalSorter({name: own_imports(name) for name in MODULES}).static_order())
    assert len(order) >= len(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_torch_stays_on_its_side(name: str) -> None:
    if is_torch_side(name) or name in TORCH_FRONTIER:
        return
    assert not [target for target in imports(name) if target.split(".")[0] == "torch"]
    assert not [target for target in own_imports(name) if is_torch_side(target)]


@pytest.mark.parametrize("name", MODULES)
def test_typer_stays_in_the_cli_and_nothing_imports_the_cli(name: str) -> None:
    if name.split(".")[0] not in ("cli", "__main__"):
        assert not [target for target in imports(name) if target.split(".")[0] == "typer"]
        assert not [target for target in own_imports(name) if target.split(".")[0] == "cli"]


@pytest.mark.parametrize("name", MODULES)
def test_files_are_touched_in_few_places(name: str) -> None:
    if name in TOUCHES_FILES:
        return
    calls = {"open", "read_text", "write_text", "read_bytes", "write_bytes", "unlink", "mkdir", "rename", "replace"}
    tree = ast.parse(MODULES[name].read_text("utf-8"))
    attributes = [n.func.attr for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    names = [n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    touched = (calls - {"replace"}) & {*attributes, *names}
    assert not touched - (
        {"open"} if name in ("execute.child", "execute.preload", "execute.descriptors", "cli.app") else set()
    )


@pytest.mark.parametrize("name", MODULES)
def test_files_stay_short(name: str) -> None:
    assert len(MODULES[name].read_text("utf-8").splitlines()) <= LONGEST_FILE


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


def test_the_table_of_parts_names_every_module() -> None:
    text = (ROOT.parent / "ARCHITECTURE.md").read_text("utf-8")
    names = {name.split(".")[-1] for name in MODULES}
    packages = {"config", "nn", "training", "execute", "results", "views", "figures", "pages", "cli", "claims"}
    packages |= {"texts", "article", "papers", "program", "compiled"}
    assert not {name for name in names - packages if f"`{name}`" not in text and not name.startswith("__")}
