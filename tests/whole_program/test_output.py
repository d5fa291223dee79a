"""Every command in every environment: no terminal, any encoding, no colours, 20 columns, no home, closed streams.

The complete matrix is slow. The default suite tries the reading commands in this process.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import records
from stored import saved

from normexp.commands import app

PROGRAM = f"{sys.executable} -m normexp"
KEYS = "depth: 1, width: 8, hidden: 8, heads: 2, vocab: 8, batch: 4, steps: 3, eval_every: 2"
CONFIG = f'name: tiny\ntitle: "dépth α [red]"\nbase: {{{KEYS}}}\ngrid: {{lr: [1e-3, 1e-2]}}\n'
CLAIMS = """title: "dépth α"
claims:
- {id: tiny.a, section: "α", text: "± é", stated: "1–2", kind: cited, source: s, says: "≈ 1", agrees: true}
"""
SMALL = "depth=1 width=8 hidden=8 heads=2 vocab=8 batch=4"
CALLS = {
    "sweep": "sweep tiny.yaml --out new",
    "collapse": f"collapse {' '.join('--' + key.replace('=', ' ') for key in SMALL.split())} --steps 3",
    "report": "report results/tiny --figures",
    "explain": "explain RUN",
    "factors": "factors results/tiny",
    "init": "init NEW",
    "repro": "repro RUN",
    "bench": f"bench --shapes 4x8 --threads 1 --rounds 3 --steps 1 {SMALL}",
    "convert": "convert RUN new.safetensors --to rms --force",
    "claims": "claims claims.yaml",
    "pack": "pack results/tiny",
    "unpack": "unpack results/tiny",
    "merge": "merge results/tiny --out merged",
    "compare": "compare tiny tiny",
    "plot": "plot results/tiny --kind curves --format svg",
    "edge": "edge edge.yaml --low 1e-3 --high 1e-2 --seeds 1 --out new",
    "export": "export results/tiny --to markdown --out new.md --force",
    "probe": f"probe {SMALL} --seeds 1",
}
"""A short call of commands that need arguments. RUN is the id of a stored run with its weights, NEW a new folder."""
COMMANDS = {name: CALLS.get(name, name) for name, _ in app.commands()}
NO_CACHE: dict[str, str | None] = dict.fromkeys(("MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"))
"""Unset the variables for cache folders, which the test process sets for its children."""
SURROUNDINGS: dict[str, tuple[dict[str, str | None], str]] = {
    "plain": ({}, "< /dev/null"),
    "narrow, without colours, in ASCII, whose home is no folder": (
        {"NO_COLOR": "1", "COLUMNS": "20", "PYTHONIOENCODING": "ascii", **NO_CACHE, "HOME": "/dev/null"},
        "<&-",
    ),
    "coloured by force, in cp1252, without a home, its temporary folder gone": (
        {
            "FORCE_COLOR": "1",
            "TERM": "xterm",
            "PYTHONIOENCODING": "cp1252",
            **NO_CACHE,
            "HOME": None,
            "TMPDIR": "/nonexistent",
        },
        "< /dev/null",
    ),
    "dumb, in the C locale": (
        {"TERM": "dumb", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TMPDIR": None},
        "< /dev/null",
    ),
    "read by head": ({}, "| head -1; exit ${PIPESTATUS[0]}"),
    "closed": ({}, "<&- >&-"),
}
"""Environment variables (None: unset) and the shell text after the command."""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("swept")
    (folder / "tiny.yaml").write_text(CONFIG, "utf-8")
    (folder / "edge.yaml").write_text(f"base: {{{KEYS}}}\n", "utf-8")
    (folder / "claims.yaml").write_text(CLAIMS, "utf-8")
    done = shell("sweep tiny.yaml --save-weights --jobs 1 --executor inline", folder, {}, "")
    assert done.returncode == 0, done.stderr
    assert shell("pack results/tiny", folder, {}, "").returncode == 0
    return folder


def shell(
    arguments: str, folder: Path, environment: dict[str, str | None], behind: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in bash with a changed environment."""
    runs = sorted(path.name for path in folder.glob("results/tiny/runs/*"))
    meant = {"RUN": runs[0] if runs else "", "NEW": tempfile.mkdtemp(dir=folder)}
    words = [meant.get(word, word) for word in shlex.split(arguments)]
    env = {key: value for key, value in (os.environ | environment).items() if value is not None}
    return subprocess.run(
        ["bash", "-c", f"{PROGRAM} {shlex.join(words)} {behind}"], cwd=folder, env=env, capture_output=True, timeout=600
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", SURROUNDINGS)
@pytest.mark.parametrize("command", COMMANDS)
def test_any_command_anywhere(swept: Path, name: str, command: str) -> None:
    environment, behind = SURROUNDINGS[name]
    done = shell(COMMANDS[command], swept, environment, behind)
    err = done.stderr.decode(environment.get("PYTHONIOENCODING") or "utf-8")
    assert done.returncode in ((0, 141) if "head" in behind else (0,)), err
    assert not re.search("Traceback|Exception|Warning|Error|matplotlib", err), err
    out = done.stdout.decode(environment.get("PYTHONIOENCODING") or "utf-8")
    assert (out == "") == (behind == "<&- >&-")
    if "FORCE_COLOR" not in environment:
        assert not set(out + err) & {"\x1b", "\r"}
    if "NO_COLOR" not in environment and "FORCE_COLOR" not in environment:
        assert "…" not in out.replace("more…", "")


READING = ["list", "report results/tiny", "schemes", "explain RUN", "models", "claims claims.yaml"]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a made-up sweep."""
    folder = tmp_path_factory.mktemp("read")
    plan = records.plan({"norm": ["ln", "none"], "lr": [1e-3, 1e-2]}, name="tiny", title="dépth α [red]")
    saved(folder / "results", plan, ["1.9", "2.5", "nan@3", "failed"])
    (folder / "claims.yaml").write_text(CLAIMS, "utf-8")
    return folder


@pytest.mark.parametrize(
    ("encoding", "environment"),
    [
        ("ascii", {"COLUMNS": "20", "FORCE_COLOR": "1", "NO_COLOR": "1"}),
        ("cp1252", {"TERM": "dumb"}),
        ("utf-8", {"NO_COLOR": "1"}),
    ],
)
def test_reading_commands_in_any_encoding_and_width(
    read: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, environment: dict[str, str]
) -> None:
    monkeypatch.chdir(read)
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    run_id = min(path.name for path in read.glob("results/tiny/runs/*"))
    for command in READING:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict") for _ in range(2))
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        monkeypatch.setattr(sys, "argv", ["normexp", *command.replace("RUN", run_id).split()])
        with pytest.raises(SystemExit) as end:
            app.main()
        out.flush()
        text = out.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
        if "FORCE_COLOR" in environment:
            assert not re.search("\x1b\\[([0-9]+;)*[349][0-9]", text), "a colour"
            text = re.sub("\x1b\\[[0-9;]*m", "", text)
        assert end.value.code == 0
        assert text.strip()
        assert not set(text) & set("\x1b\r…")
        if "COLUMNS" in environment and command.startswith(("list", "schemes", "models")):
            assert max(map(len, text.splitlines())) <= 20
        if command.startswith("report"):
            squeezed = "".join(text.split())
            assert {"ascii": "d?pth?[red]", "cp1252": "dépth?[red]", "utf-8": "dépthα[red]"}[encoding] in squeezed


def test_characters_that_the_font_lacks_draw_no_warning() -> None:
    from matplotlib.figure import Figure

    from normexp.plots.style import render

    figure = Figure()
    figure.suptitle("日本 \U0001f600")
    assert render(figure).keys() == {"svg", "png"}
