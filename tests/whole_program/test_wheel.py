"""The wheel is complete: every command works from it outside of a checkout."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from commandline import TINY

from normexp.claims.files import shipped
from normexp.commands.app import commands

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CHANGED = ("PYTHON", "XDG_", "MPLCONFIGDIR", "DASK_")
"""Prefixes of environment variables that name other folders or that the test process sets."""
BUILT_FROM = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
SHIPPED = ("configs", "examples")
SWEEPS = {"one": "grid: {norm: [ln, none], seed: [0, 1]}\n", "own": "grid: {norm: [l1, ln]}\n"}
KEYS = "depth=1 width=8 hidden=8 heads=2 vocab=8 batch=4 seq_len=12"
COMMANDS = (
    "init",
    "init elsewhere --examples",
    "sweep starter.yaml depth=1 width=8 hidden=8 heads=2 vocab=8 batch=4 steps=3 seed=0",
    "sweep elsewhere/configs/edge.yaml --dry-run",
    "sweep one.yaml --save-weights",
    "sweep one.yaml --shard 1/2",
    "sweep one.yaml --shard 2/2",
    "sweep own.yaml --plugin l1_norm.py",
    "merge results/one.shard-1-of-2 results/one.shard-2-of-2 --out results/merged",
    "collapse --depth 2 --width 8 --hidden 8 --heads 2 --vocab 8 --batch 4 --steps 4 --eval-every 2",
    "edge one.yaml --low 1e-3 --high 1e-2 --resolution 5 --seeds 1",
    f"probe {KEYS} --seeds 1",
    f"bench {KEYS} --shapes 4x8 --threads 1 --rounds 3 --steps 1",
    "claims --checks",
    "claims article.6.2",
    "claims article.1.3",
    "claims papers.xiong.small_rate",
    "claims article article.6.2.nan300 --run --scale 0.0001",
    "list",
    "report results/one --figures",
    "explain RUN_ID",
    "factors results/one",
    "repro RUN_ID",
    "compare one --along norm=ln,none",
    "plot results/one --kind curves --format pdf",
    "export results/one --to latex",
    "export results/one --to csv",
    "convert RUN_ID converted.safetensors --to rms",
    "pack results/one",
    "unpack results/one",
)
"""All commands that need arguments, in an order in which each finds its input. RUN_ID is a run of sweep `one`."""


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel, an empty folder to work in, and a home that does not exist."""

    program: Path
    python: Path
    package: Path
    wheel: Path
    folder: Path
    home: Path

    def run(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(CHANGED)}
        environment["HOME"] = str(self.home)
        return subprocess.run(
            words, cwd=self.folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build the wheel from a copy of the source, and install it beside this environment's dependencies."""
    temporary = tmp_path_factory.mktemp("wheel")
    source, environment, folder = temporary / "source", temporary / "environment", temporary / "folder"
    shutil.copytree(ROOT / "normexp", source / "normexp", ignore=shutil.ignore_patterns("__pycache__"))
    for name in BUILT_FROM:
        shutil.copy(ROOT / name, source)
    for name in SHIPPED:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    alone = ["--no-deps", "--no-index"]
    run = [*pip, "wheel", *alone, "--no-build-isolation", "--wheel-dir", str(temporary), str(source)]
    subprocess.run(run, check=True, cwd=temporary)
    (wheel,) = temporary.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    subprocess.run([*pip, "--python", str(python), "install", *alone, str(wheel)], check=True, cwd=temporary)
    (site,) = environment.glob("lib/python*/site-packages")
    # A folder on the path whose own .pth files are not read: dependencies are found there, the checkout is not.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    folder.mkdir()
    for name, text in SWEEPS.items():
        (folder / f"{name}.yaml").write_text(TINY + text)
    shutil.copy(ROOT / "examples" / "l1_norm.py", folder)
    return Installed(
        environment / "bin" / "normexp", python, site / "normexp", wheel, folder, temporary / "no" / "home"
    )


def test_it_holds_every_file_of_the_package_and_nothing_else(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("normexp/")}
    source = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "normexp").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    shipped = {
        f"normexp/shipped/{path.relative_to(ROOT)}"
        for name in SHIPPED
        for path in (ROOT / name).iterdir()
        if path.is_file()
    }
    assert packed == source | shipped


def test_every_calculation_and_every_sweep_of_a_shipped_text_is_found(installed: Installed) -> None:
    code = (
        "import normexp\n"
        "from normexp.claims.calculations import COMPUTED, function_of\n"
        "from normexp.claims.evidence import plans\n"
        "from normexp.claims.files import choose, shipped\n"
        "print(normexp.__file__, len([function_of(name) for name in COMPUTED]))\n"
        "for name in shipped():\n"
        "    file = choose([name])[0]\n"
        "    print(name, all(plan.configs for plan in plans(file, file.sweeps).values()))\n"
    )
    done = installed.run([str(installed.python), "-c", code])
    assert done.returncode == 0, done.stderr
    first, *texts = done.stdout.splitlines()
    assert first.startswith(str(installed.package))
    assert texts == [f"{name} True" for name in shipped()]


def test_every_command_works_in_any_folder(installed: Installed) -> None:
    """Commands that the program prints as its advice work there as well."""
    before = {path: path.read_bytes() for path in installed.package.rglob("*") if _is_kept(path)}
    tried = {command.split()[0] for command in COMMANDS}
    for command in (*COMMANDS, *(name for name, _ in commands() if name not in tried)):
        words = shlex.split(command.replace("RUN_ID", _run_id(installed.folder)))
        done = installed.run([str(installed.program), *words])
        context = f"normexp {command}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == 0, context
        assert "Traceback" not in done.stderr, context
        assert str(ROOT) not in done.stdout + done.stderr, context
    assert {path: path.read_bytes() for path in installed.package.rglob("*") if _is_kept(path)} == before
    assert not installed.home.exists()
    page = (installed.folder / "results" / "one" / "report.html").read_text("utf-8")
    for name in ("page.css", "page.js"):
        text = (ROOT / "normexp" / "report" / name).read_text("utf-8")
        assert text.splitlines()[0] in page


@pytest.mark.parametrize("claim", ["article.4.2.share", "papers.xiong.pre_stream"])
def test_a_calculation_is_repeated_by_the_command_that_it_prints(claim: str, installed: Installed) -> None:
    first = installed.run([str(installed.program), "claims", claim])
    again = installed.run(_printed(first.stdout, "normexp claims ", installed)[0])
    assert (again.returncode, again.stdout) == (0, first.stdout), again.stderr


def test_runs_are_repeated_by_the_commands_that_a_claim_prints(installed: Installed) -> None:
    """Shortened runs, as few as a claim reads."""
    arguments = ["claims", "article.6.2.ln_equals_rms"]
    quick = ["--scale", "0.0001"]
    lacking = installed.run([str(installed.program), *arguments, *quick])
    assert lacking.returncode == 0, lacking.stderr
    (command,) = _printed(lacking.stdout, "normexp claims ", installed)
    assert command[1:] == [*arguments, "--run", *quick]
    temporary = installed.run(command)
    assert temporary.returncode == 0, temporary.stderr
    commands = _printed(temporary.stdout, "normexp sweep ", installed)
    assert commands
    shutil.rmtree(installed.folder / "results" / "article-quick")
    for words in commands:
        done = installed.run(words)
        assert done.returncode == 0, done.stderr
    again = installed.run([str(installed.program), *arguments, *quick])
    assert again.stdout.partition("Verdict: ")[2] == temporary.stdout.partition("Verdict: ")[2]


@pytest.mark.parametrize("text", ["article", "papers"])
def test_without_runs_it_names_missing_runs_and_the_command(text: str, installed: Installed) -> None:
    claim = {"article": "article.6.2.nan300", "papers": "papers.xiong.small_rate"}[text]
    done = installed.run([str(installed.program), "claims", claim])
    assert done.returncode == 0, done.stderr
    assert re.search(rf"^results/{text} lacks (\d+) of \1 ", done.stdout, re.MULTILINE), done.stdout
    assert f"\nnormexp claims {claim} --run\n" in done.stdout
    assert f"results/{text} of normexp's repository" in done.stdout
    assert not (installed.folder / "results" / text).exists()


def test_packed_runs_are_found_in_the_results_folder(installed: Installed) -> None:
    """The runs are copied from the repository, as the program advises."""
    packed = installed.folder / "results" / "papers" / "shallow"
    packed.mkdir(parents=True)
    shutil.copy(ROOT / "results" / "papers" / "shallow" / "runs.tar.xz", packed)
    done = installed.run([str(installed.program), "claims", "papers.b2t.shallow_post"])
    shutil.rmtree(packed.parent)
    assert done.returncode == 0, done.stderr
    assert "12 runs restored from runs.tar.xz" in done.stderr
    assert "not enough runs" not in done.stdout
    assert "lacks" not in done.stdout


def _is_kept(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def _run_id(folder: Path) -> str:
    runs = folder / "results" / "one" / "runs"
    return next((path.name for path in sorted(runs.glob("*-ln-*"))), "none yet")


def _printed(output: str, begin: str, installed: Installed) -> list[list[str]]:
    """The commands that an output shows, with this environment's program."""
    lines = [line for line in output.splitlines() if line.startswith(begin)]
    return [[str(installed.program), *shlex.split(line)[1:]] for line in lines]
