"""Hostile texts and file names do not leave the folder and cannot control a terminal or a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import records as made
from commandline import invoke
from others import ids

from normexp.claims import parser
from normexp.config import sweep_file
from normexp.errors import UserError
from normexp.report.html import html
from normexp.report.markdown import markdown
from normexp.report.page import Commands, Page
from normexp.storage.codec import CHECKSUM, FILES
from normexp.storage.store import MANIFEST, RUN, RUNS, Store

BAD_NAMES = [
    "../x",
    "..",
    "...",
    "/etc/x",
    "a/b",
    "a\\b",
    "a\0b",
    "a\nb",
    "a\x1b[31m",
    ".hidden",
    "-rf",
    " x",
    "x ",
    "x.",
    "con",
    "NUL",
    "aux.yaml",
    "com1",
    "n" * 300,
    "é" * 90,
]


def quoted(name: str) -> str:
    return json.dumps(name)


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_invalid_names_are_refused(name: str) -> None:
    if "\n" not in name and name == name.strip():  # YAML texts are put on one line
        with pytest.raises(UserError, match="name: "):
            sweep_file.parse(f"name: {quoted(name)}\ngrid: {{lr: [1e-3]}}", origin="x.yaml")
    with pytest.raises(UserError, match="name: "):
        sweep_file.parse("grid: {lr: [1e-3]}", origin="x.yaml", stem=name)
    text = "claims:\n- {id: a, section: a, text: a, stated: a, kind: cited, source: a, says: a, agrees: true}\n"
    with pytest.raises(UserError, match="name: "):
        parser.parse(text, Path(f"{name}.yaml") if "/" not in name and "\0" not in name else Path("x.yaml")) if (
            "/" not in name and "\0" not in name
        ) else parser.parse(f"name: {quoted(name)}\n{text}", Path("x.yaml"))


@pytest.mark.parametrize("name", ["title", "a;b", "dépth α", "6.2", "lr_scan+x=1", "console", "n" * 100])
def test_other_names_are_accepted(name: str) -> None:
    assert sweep_file.parse("grid: {lr: [1e-3]}", origin="x.yaml", stem=name).folder == name


NASTY = "\x1b]0;title\x07[red]x[/] [link=http://x]y[/link] <script src=//x></script> | `b` ![i](http://x)\r\x9b2J"


class TestTerminal:
    """Hostile text on standard output and standard error: no raw control characters, no markup."""

    @pytest.fixture
    def nasty(self, tmp_path: Path) -> Store:
        plan = made.plan({"norm": ["none", "ln"], "lr": [1e-3, 1e-2]}, label=NASTY, title=NASTY)
        store = Store(tmp_path / "results" / plan.folder)
        store.begin(plan, [], force=False)
        one, two, three = list(plan.configs.values())[:3]
        store.write(made.done(one, 1.9, environment={"torch": NASTY, "torch_threads": 1}, reused_from=NASTY))
        store.write(made.dead(two, 3))
        broken = made.failed(three)
        store.write(broken.__class__(config=three, status=broken.status, error=NASTY, log=NASTY))
        path = store.folder / RUNS / two.run_id / RUN
        stored = json.loads(path.read_text())
        stored["result"]["death"]["tensor"] = NASTY
        del stored[CHECKSUM], stored[FILES]  # as an older version wrote it
        path.write_text(json.dumps(stored))
        return store

    def test_in_results(self, nasty: Store, tmp_path: Path) -> None:
        (tmp_path / "results" / "\x1b[31mred").mkdir()
        (tmp_path / "results" / "\x1b[31mred" / MANIFEST).write_text('{"\\u001b[31m": 1}')
        commands = [["list"], ["report", nasty.folder], *(["explain", run_id] for run_id in ids(nasty))]
        ends = [invoke(*command, cwd=tmp_path) for command in commands]
        assert {end.code for end in ends} == {0}
        out = "".join(end.out for end in ends)
        for text in (out, *(end.err for end in ends), (nasty.folder / "summary.md").read_text()):
            assert not set(text) & {"\x1b", "\x07", "\r", "\x9b"}
        assert "[red]x[/]" in out
        assert "blocks.3.ffn.fc1" not in out

    @pytest.mark.parametrize(
        "arguments",
        [
            ["sweep", "bad.yaml"],
            ["sweep", "\x1b[31m.yaml"],
            ["explain", "\x1b[31m[red][/]"],
            ["report", "\x1b[31m[/]"],
            ["claims", "bad.yaml"],
        ],
    )
    def test_in_complaints(self, arguments: list[str], tmp_path: Path) -> None:
        (tmp_path / "bad.yaml").write_text('name: "\\e[31m"\n"\\e[2J[red]": 1\ngrid: {"\\e[31m": ["\\a"], lr: "\\e"}\n')
        done = invoke(*arguments, cwd=tmp_path)
        assert (done.code, done.err.startswith("normexp: ")) == (2, True)
        assert not set(done.err) & {"\x1b", "\x07"}


def test_pages_load_nothing_and_quote_commands() -> None:
    lines = (f"normexp claims 'x\n```\n{NASTY}' id", "normexp claims ```` id")
    page = Page(NASTY, (Commands(lines),))
    text = html(page)
    assert "<script" not in text
    assert 'src="' not in text
    assert "\x1b" not in text + markdown(page)
    lines_of_page = markdown(page).splitlines()
    fence = lines_of_page[2]
    assert fence == "`" * 5
    assert lines_of_page.count(fence) == 2
    assert lines_of_page[-1] == fence
