"""Completion of the command line in bash, zsh and fish."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import records
import typer
from stored import saved

from normexp.commands import completion
from normexp.commands.app import app
from normexp.config.run import KEYS
from normexp.schemes.schemes import SCHEMES

ROOT = typer.main.get_command(app)


def after(typed: str) -> list[str]:
    """Return the candidates for the last word."""
    *words, incomplete = typed.split(" ")
    line = completion.Line(tuple(words[1:]), incomplete)
    return [candidate.value for candidate in completion.candidates(ROOT, line)]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Store a sweep `ours` of two runs under results/ and return their ids."""
    plan = records.plan({"lr": [1e-3, 1e-2]}, name="ours")
    saved(tmp_path / "results", plan, ["2.0", "2.0"])
    monkeypatch.chdir(tmp_path)
    return sorted(plan.configs)


def test_commands_and_options() -> None:
    assert after("normexp re") == ["report", "repro"]
    assert after("normexp --sh") == ["--show-completion"]
    assert "--dry-run" in after("normexp sweep a.yaml --")
    assert after("normexp sweep a.yaml --dry-run --dr") == []
    assert after("normexp sweep a.yaml --only lr=1 --on") == ["--only"]
    assert after("normexp nothing x") == []


def test_keys_and_their_words() -> None:
    assert after("normexp sweep ") == []  # the shell completes file names
    assert after("normexp sweep a.yaml ") == [f"{name}=" for name in KEYS]
    assert after("normexp sweep a.yaml lr=1e-3 label") == ["label_noise="]
    assert "lr=" not in after("normexp sweep a.yaml lr=1e-3 l")
    assert after("normexp sweep a.yaml position=") == [f"position={name}" for name in SCHEMES]
    assert after("normexp sweep a.yaml norm=ln,r") == ["norm=ln,rms"]
    assert after("normexp sweep a.yaml norm=rms,r") == []
    assert after("normexp probe residual=") == ["residual=true", "residual=false"]
    assert after("normexp sweep a.yaml steps=") == ["steps=3000"]
    assert after("normexp sweep a.yaml --only position=po") == ["position=post"]
    assert after("normexp collapse --norm r") == ["rms"]
    assert after("normexp collapse --norm=r") == ["--norm=rms"]
    assert after("normexp collapse --setting as-w") == ["as-written"]


def test_runs_sweeps_and_claims(results: list[str]) -> None:
    assert after("normexp explain ") == results
    assert after(f"normexp explain {results[1][:-8]}") == [results[1]]
    assert after("normexp explain --out elsewhere ") == []
    assert after("normexp report ") == ["results/ours"]
    assert after("normexp report results/o") == ["results/ours"]
    assert after("normexp compare ou") == ["ours"]
    assert after(f"normexp compare ours {results[0][:4]}") == results
    assert after("normexp compare ours results/") == ["results/ours"]
    assert after("normexp export results/ours --to te") == ["tensorboard"]
    assert after("normexp claims article.6.") == [f"article.6.{number}." for number in (1, 2, 3, 4)]
    assert "article.6.2.nan300" in after("normexp claims article.6.2.")
    assert after("normexp claims pap") == ["papers", "papers."]


@pytest.mark.parametrize(
    ("words", "at", "line"),
    [
        (["sweep", "a.yaml", "position", "=", "pre,s"], 5, (("sweep", "a.yaml"), "position=pre,s", "position=")),
        (["sweep", "a.yaml", "position", "="], 4, (("sweep", "a.yaml"), "position=", "position=")),
        (["sweep", "a.yaml", "lr", "=", "1", "nor"], 6, (("sweep", "a.yaml", "lr=1"), "nor", "")),
        (["sweep", "--only", "lr", "=", "1", ""], 6, (("sweep", "--only", "lr=1"), "", "")),
        (["rep"], 1, ((), "rep", "")),
        ([""], 1, ((), "", "")),
    ],
)
def test_bash_splits_words_at_equals(words: list[str], at: int, line: tuple[tuple[str, ...], str, str]) -> None:
    assert completion.read("\n".join(["normexp", *words]), str(at), splits=True) == completion.Line(*line)


def environment(words: list[str], shell: str) -> dict[str, str]:
    typed = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    return {**os.environ, completion.VARIABLE: f"complete_{shell}", **typed}


@pytest.mark.parametrize(
    ("shell", "output"),
    [
        ("bash", "heads=\n"),
        ("zsh", f"heads=:{KEYS['heads'].help}\n"),
        ("fish", f"heads=\t{KEYS['heads'].help}\n"),
        ("tcsh", ""),
    ],
)
def test_each_shell_has_its_form(
    shell: str, output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in environment(["normexp", "sweep", "a.yaml", "hea"], shell).items():
        monkeypatch.setenv(name, value)
    completion.answer(ROOT)
    assert capsys.readouterr().out == output


def test_completion_runs_no_plugin_and_imports_no_slow_library(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("raise SystemExit('run')")
    code = (
        "import sys, normexp.commands.app\n"
        "normexp.commands.app.main()\n"
        "slow = ('torch', 'pandas', 'numpy', 'matplotlib', 'scipy')\n"
        "print('LOADED', sorted(m for m in slow if m in sys.modules))"
    )
    words = ["normexp", "sweep", "a.yaml", "--plugin", "mine.py", "--steps", "position=pos"]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(words, "fish"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    first, last = done.stdout.splitlines()
    assert (first.split("\t")[0], last, done.stderr) == ("position=post", "LOADED []", "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes(tmp_path: Path) -> None:
    script = f"""
    normexp() {{ {sys.executable} -m normexp "$@"; }}
    source <(normexp --show-completion bash)
    complete -p normexp
    COMP_WORDS=(normexp sweep a.yaml position = pre,s); COMP_CWORD=5
    _normexp_completion normexp
    echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True)
    assert done.stdout.splitlines() == [
        "complete -o bashdefault -o default -F _normexp_completion normexp",
        "pre,sandwich pre,subln",
    ]
    assert done.stderr == ""


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_scripts_are_read_by_their_shells(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    path = tmp_path / "script"
    path.write_text(completion.SCRIPTS[shell])
    subprocess.run([shell, "-n", str(path)], check=True, timeout=60)
