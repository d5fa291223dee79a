"""Every command of README.md and docs/ runs on small copies of its configs and prints what its page shows in shape.

Nothing is left out silently: what cannot be run here stands in NOT_RUN with the reason.
"""

from __future__ import annotations

import contextlib
import difflib
import glob
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import documents
import pytest
import yaml
from documents import PAGES, ROOT, Block, Command
from typer.testing import CliRunner

from normexp.analysis import collapse
from normexp.claims import evaluate, files, parser
from normexp.claims.claim import Decision, Finding
from normexp.commands import app as program
from normexp.commands import bench
from normexp.config import grid, plugins, sweep_file
from normexp.config.run import KEYS, RunConfig
from normexp.errors import EXIT_USAGE, UserError
from normexp.execution.executors import EXECUTORS
from normexp.execution.inline import inline

NOT_RUN = {
    r"make \w[\w-]*": "installs first; what it then runs stands beside it",
    r"source .*|normexp --show-completion fish \| source": "of a shell: tests/commands/test_completion.py",
    r"(\S+=\S+ )?dask (scheduler|worker) .*": "tests/support/clusters.py starts them",
    r"normexp sweep \S+ --executor dask --scheduler tcp:.*": "needs them: tests/execution/test_dask_cluster.py",
    r"for host in .*|done|ssh .*|sbatch .*": "needs machines",
    r"python examples/from_python.py": "its text is run as that of a block",
    r"python examples/fused_attention(_network)?\.py": "examples/test_fused_attention.py measures what they print",
    r"normexp claims (papers )?--run": "hours; recipes/own-claim.md runs a file of one's own on the same path",
    r"normexp sweep --jobs 2": "names the command that benchmarks/sweep.py times",
}
"""Commands, as whole lines, that are not run here, and why."""
COMPILED = {
    "docs/recipes/cluster.md": "dask_jobqueue and a Slurm",
    "docs/recipes/own-norm.md": "the rest of the file",
    "docs/recipes/own-claim.md": "the rest of the file",
}
"""Pages whose Python blocks are only compiled, and what they lack."""
FIRST = {
    "docs/claims.md": [
        f"normexp sweep article/{stem}.yaml --out results/article"
        for stem in ("6.2", "6.3", "factors-no-norm", "factors-post")
    ],
    "docs/figures.md": ["normexp sweep configs/depth.yaml", "normexp sweep configs/lr_scan.yaml"],
    "docs/inside.md": ["normexp sweep configs/lr_scan.yaml"],
    "docs/compare.md": ["normexp sweep rates.yaml"],
    "docs/export.md": ["normexp sweep rates.yaml"],
    "docs/recipes/cluster.md": [f"normexp sweep wide.yaml --shard {shard}/4" for shard in (1, 2, 4)],
}
"""What a page needs of others."""
RATES = "base: {depth: 6, steps: 200}\ngrid: {position: [pre, post], lr: [1e-3, 1e-2], seed: [0, 1]}\n"
"""The sweep of docs/api.md, as a file."""
CODES = {"normexp claims": (0, 3), "normexp merge": (0, 1)}
"""Exit codes of commands that begin so: small networks give other verdicts; of a merge, runs are missing."""
BOTH = "normexp merge"
"""Shown with standard error, where it tells what is missing."""
SHIPPED = re.compile(r"normexp claims (article|papers)")
"""What is asked of the claims that ship, whose networks have their own sizes."""
QUICK = ("README.md",)
"""Pages of the default suite; the others are slow."""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in this process, few steps and seeds where the program chooses them, no figures of sweeps."""
    monkeypatch.setitem(EXECUTORS, "processes", inline)  # type: ignore[arg-type]
    dying = {"steps": 12, "eval_every": 12, "beta1": 0.0, "beta2": 0.0, "init_gain": 1.8}  # without a norm at step 3
    monkeypatch.setattr(collapse, "DEFAULTS", dying)
    monkeypatch.setattr(collapse, "SEEDS", (0,))
    monkeypatch.setattr(bench, "SHAPES", "4x8")
    monkeypatch.setattr("normexp.report.report.write_figures", lambda store, report: None)
    monkeypatch.delenv("COLUMNS", raising=False)
    for name in ("SLURM_ARRAY_TASK_ID", "SLURM_CPUS_PER_TASK"):
        monkeypatch.setenv(name, "1")


@contextlib.contextmanager
def small_networks() -> Iterator[None]:
    """Sizes that stand nowhere are small."""
    known, own = {name: KEYS[name].default for name in documents.SIZES}, RunConfig.__init__.__kwdefaults__
    try:
        _set_sizes(documents.SIZES, own)
        yield
    finally:
        _set_sizes(known, own)


def _set_sizes(sizes: Mapping[str, Any], own: dict[str, Any]) -> None:
    for name, value in sizes.items():
        object.__setattr__(KEYS[name], "default", value)
    own.update(sizes)


@pytest.fixture(autouse=True)
def _plugins_are_forgotten() -> Iterator[None]:
    yield
    forget_plugins()


def forget_plugins() -> None:
    for plugin in plugins.loaded():
        plugins.remove(plugin)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small copies of what a clone has."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    shutil.copytree(files.FOLDER / "article" / "sweeps", tmp_path / "article")
    own = [tmp_path / "examples" / f"{name}.yaml" for name in ("l1_norm", "deepnorm_runs")]
    for path in [*tmp_path.glob("configs/*.yaml"), *tmp_path.glob("article/*.yaml"), *own]:
        article = path.parent.name == "article"  # whose tables have columns in words
        path.write_text(documents.small(path.read_text("utf-8"), whole=article), "utf-8")
    shutil.copy(ROOT / "examples" / "deepnorm_claims.yaml", tmp_path / "my_claims.yaml")
    shutil.copy(tmp_path / "examples" / "deepnorm_runs.yaml", tmp_path)
    (tmp_path / "rates.yaml").write_text(documents.small(RATES), "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def yaml_blocks(page: str) -> dict[str, str]:
    """Name of a page's file to its text."""
    found = {}
    for block in documents.blocks(PAGES[page].read_text("utf-8")):
        if block.language == "yaml" and (match := re.match(r"# (?:\S+/)?(\w+\.yaml)\b", block.text)):
            found[match[1]] = block.text
    return found


def commands_of(page: str) -> list[Command]:
    return documents.commands(page, PAGES[page].read_text("utf-8"))


def reason(command: str) -> str | None:
    return next((why for pattern, why in NOT_RUN.items() if re.fullmatch(pattern, command)), None)


def filled(text: str) -> str:
    """The command with its placeholders, and ids that are not there, replaced by what is."""
    runs = sorted(path.parent.name for path in Path("results").rglob("run.json"))
    sweeps = sorted(str(path.parent) for path in Path("results").rglob("manifest.json"))
    words = []
    for word in text.split(" "):
        if re.match(r"d\d+-\w", word) and not any(run.startswith(word) for run in runs):
            word = difflib.get_close_matches(word, runs, n=1, cutoff=0)[0]
        words.append({"RUN_ID": runs[:1], "FOLDER": sweeps[:1], "A": sweeps[:1], "B": sweeps[-1:]}.get(word, [word])[0])
    return " ".join(words)


def run(text: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    words = [
        part for word in shlex.split(os.path.expandvars(filled(text))) for part in sorted(glob.glob(word)) or [word]
    ]
    assert words[0] == "normexp", text
    with contextlib.nullcontext() if SHIPPED.match(text) else small_networks():
        done = CliRunner().invoke(program.app, words[1:])
    forget_plugins()
    complaint = "\n".join(done.exception.complaints) if isinstance(done.exception, UserError) else ""
    if done.exception is not None and not isinstance(done.exception, (SystemExit, UserError)):
        raise done.exception
    out = done.stdout.replace(
        f"{ROOT}/", ""
    )  # of the claims that ship, which in a clone lie below the working directory
    return (EXIT_USAGE if complaint else done.exit_code), out, done.stderr + complaint


def faults(command: Command) -> list[str]:
    """What is wrong with a command and with what its page shows of it."""
    code, out, err = run(command.text)
    if code not in next((codes for begins, codes in CODES.items() if command.text.startswith(begins)), (0,)):
        return [f"{command}\n  exit code {code}: {err}"]
    printed = out + err if command.text.startswith(BOTH) else out
    return [f"{command}\n  {fault}\n{printed}" for fault in documents.drift(command.shown, printed.splitlines())]


WITH_COMMANDS = [page for page in PAGES if commands_of(page)]


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[] if page in QUICK else pytest.mark.slow) for page in WITH_COMMANDS]
)
def test_commands_of_a_page_run_and_print_what_it_shows(
    page: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "calculate", _found)
    for name, text in yaml_blocks(page).items():
        if name != "lr_scan.yaml":
            (workspace / name).write_text(documents.small(text), "utf-8")
    for text in FIRST.get(page, []):
        assert run(text)[0] == 0, text
    found = [fault for command in commands_of(page) if reason(command.text) is None for fault in faults(command)]
    assert not found, "\n".join(found)


def _found(name: str, seed: int, figures: object) -> Finding:
    """In place of a calculation: tests/texts/test_snippets.py and tests/texts/test_predictions.py make them."""
    return Finding(decision=Decision.REFUTED, measured="1", sentence="it does not hold")


def test_what_is_not_run_stands_on_a_page() -> None:
    lines = [command.text for page in PAGES for command in commands_of(page)]
    assert [pattern for pattern in NOT_RUN if not any(re.fullmatch(pattern, line) for line in lines)] == []
    assert [line for line in lines if not line.startswith("normexp") and reason(line) is None] == []


BLOCKS = [(page, block) for page in PAGES for block in documents.blocks(PAGES[page].read_text("utf-8"))]


def test_every_block_says_what_it_is() -> None:
    known = {"sh", "bash", "console", "text", "yaml", "python"}
    assert [f"{page}:{block.line}" for page, block in BLOCKS if block.language not in known] == []


@pytest.mark.parametrize(
    ("page", "block"),
    [pytest.param(page, block, id=f"{page}:{block.line}") for page, block in BLOCKS if block.language == "yaml"],
)
def test_configs_and_claims_can_be_read(page: str, block: Block, workspace: Path) -> None:
    if "\nclaims:" in block.text:
        assert parser.parse(block.text, workspace / "shown.yaml").claims
    elif "\njobs:" in f"\n{block.text}":  # of a CI
        assert yaml.safe_load(block.text)["jobs"]
    else:
        with plugins.using(plugins.read(workspace / "examples" / "l1_norm.py")):
            assert grid.plan(sweep_file.parse(block.text, origin=page, stem="shown")).points


@pytest.mark.parametrize(
    ("page", "block"),
    [pytest.param(page, block, id=f"{page}:{block.line}") for page, block in BLOCKS if block.language == "python"],
)
@pytest.mark.slow
def test_python_runs(page: str, block: Block, workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = compile(documents.small_python(block.text), f"{page}:{block.line}", "exec")
    if page in COMPILED:
        return
    shown = next(command.shown for command in commands_of(page) if command.text.startswith("python "))
    assert block.text in (ROOT / "examples" / "from_python.py").read_text("utf-8")
    with small_networks():
        exec(code, {"__name__": "shown"})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(shown)
    assert [line.split()[0] for line in printed[2:]] == [line.split()[0] for line in shown[2:]]


def test_a_page_that_shows_other_words_is_found() -> None:
    printed = [
        "Title",
        "lr   post, warmup 0",
        "─" * 20,
        "0.1  2.5",
        "17 of 20 finished runs learned; 3 died.",
        "Files: a/b",
    ]
    assert documents.drift(["Title", "lr    post, warmup 200", "─" * 9, "1.0   plateau", *printed[4:]], printed) == []
    assert documents.drift(["Title", "...", "Files: a/b"], printed) == []
    for wrong in (
        ["Another title", *printed[1:]],
        [*printed[:1], "lr   pre, warmup 0", *printed[2:]],
        [*printed[:4], "17 of 20 runs learned; 3 died.", printed[5]],
        [*printed[:5], "Files: a/c"],
        printed[:5],
        [*printed, "More"],
        ["...", "Files: a/c"],
        ["Title", "...", "lr   pre", "─" * 9],
    ):
        assert len(documents.drift(wrong, printed)) == 1, wrong
