"""Plugins: what they add, in which runs their hash counts, and errors in their files."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from commandline import main
from typer.testing import CliRunner

from normexp.claims.evaluate import commands, judged
from normexp.claims.evidence import plans
from normexp.claims.parser import load
from normexp.commands.app import app
from normexp.config import plugins
from normexp.config.plan import Shard
from normexp.config.plugins import Plugin
from normexp.config.run import RunConfig
from normexp.errors import UserError
from normexp.report import claims_report, shards
from normexp.report.markdown import markdown
from normexp.schemes import SCHEMES
from normexp.schemes.norms import NORMS, Registry

EXAMPLE = Path(__file__).parents[2] / "examples" / "l1_norm.py"
TINY = "width: 8, hidden: 8, heads: 2, vocab: 8, order: 1, depth: 2, steps: 3, batch: 4"


def normexp(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "normexp", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    text = f"name: own\nbase: {{{TINY}}}\ngrid: {{norm: [ln, l1], position: [pre, fading]}}\n"
    path = tmp_path / "own.yaml"
    path.write_text(text)
    return path


@pytest.mark.slow
def test_a_sweep_and_its_readers(sweep: Path, tmp_path: Path) -> None:
    """One folder in every command, with and without its plugin."""
    plugin = tmp_path / "own.py"
    plugin.write_text(EXAMPLE.read_text())
    done = normexp("sweep", sweep, "--plugin", plugin, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "results" / "own"
    ids = sorted(path.name for path in (folder / "runs").iterdir())
    assert len(ids) == 4
    assert sum("-l1-fading-" in run_id for run_id in ids) == 1
    again = normexp("sweep", sweep, "--plugin", plugin, "--dry-run", cwd=tmp_path)
    assert "4 done" in again.stdout

    for command in (
        ("list",),
        ("report", folder),
        ("explain", ids[0]),
        ("repro", next(i for i in ids if "-l1-" in i)),
    ):
        done = normexp(*command, "--plugin", plugin, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "plugin" not in done.stderr
    without = normexp("report", folder, cwd=tmp_path)
    assert without.returncode == 2
    assert "--plugin FILE.py" in without.stderr
    assert "Traceback" not in without.stderr
    (kept,) = (folder / "plugins").iterdir()
    assert str(kept.relative_to(tmp_path)) in without.stderr

    plugin.write_text(EXAMPLE.read_text() + "\n# another file\n")
    changed = normexp("sweep", sweep, "--plugin", plugin, "--dry-run", cwd=tmp_path)
    assert "3 to do" in changed.stdout, changed.stdout + changed.stderr
    other = normexp("report", folder, "--plugin", plugin, cwd=tmp_path)
    assert "another version of its plugin" in other.stderr
    by_the_copy = normexp("report", folder, "--plugin", kept, cwd=tmp_path)
    assert by_the_copy.returncode == 0, by_the_copy.stderr


def test_a_norm_of_a_plugin_is_unknown_without_it(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", str(sweep)], tmp_path, monkeypatch) == 2
    error = capfd.readouterr().err
    assert "'l1'" in error
    assert "--plugin FILE.py" in error
    assert not (tmp_path / "results").exists()


def test_its_rows_are_listed_with_the_others() -> None:
    with plugins.using(plugins.read(EXAMPLE)):
        output = CliRunner(env={"COLUMNS": "250"}).invoke(app, ["schemes", "--depth", "4"]).output
    assert "branch_out 1 to 0.25" in output
    assert "g x / (mean |x| + eps)" in output


def test_ids_contain_the_hash_of_the_file_if_one_of_its_rows_is_used() -> None:
    keys = [{"norm": "l1"}, {"position": "fading"}, {"final_norm": "l1"}, {}]
    ids = []
    for text in ("", "# changed"):
        plugin = Plugin("x.py", EXAMPLE.read_text() + text)
        with plugins.using(plugin):
            plugins.add(plugin)
            ids.append([RunConfig(**values).run_id for values in keys])
    assert [a == b for a, b in zip(*ids, strict=True)] == [False, False, False, True]
    assert len({*ids[0], *ids[1]}) == 7


NORM = "from normexp.schemes import Norm\nimport torch\nNORMS = {{'a': Norm(help='', source='', {})}}"
SCHEME = (
    "from normexp.schemes import *\n"
    "SCHEMES = {{'s': Scheme(final_norm=False, help='', source='', **{{'doors': everywhere()}} | dict({}))}}"
)
BAD = {
    "x = (": "x.py:1: ",
    "import nowhere_at_all": "x.py:1: ModuleNotFoundError: No module named 'nowhere_at_all'",
    "def f():\n    return 1 / 0\nf()": "x.py:2: ZeroDivisionError",
    "raise SystemExit(3)": "x.py:1: SystemExit: 3",
    "x = 1": "write NORMS = {...} or SCHEMES = {...} or CALCULATIONS = {...}",
    "CALCULATIONS = {'a': 1}": "CALCULATIONS['a'] | int | write a function of a seed",
    "CALCULATIONS = {'a': lambda: 1}": "calculation 'a': the function | () | (seed): write def name(seed): ...",
    "CALCULATIONS = {'a': lambda figures: 1}": "calculation 'a': | (figures) | (seed, figures)",
    "CALCULATIONS = {'a.b': lambda seed: 1}": "calculation 'a.b': | 32",
    "CALCULATIONS = {'a': lambda seed: 1}": "calculation 'a': | docstring",
    "NORMS = [1]": "NORMS",
    "NORMS = {'a': 1}": "NORMS['a'] | int | write normexp.schemes.Norm(...)",
    NORM.format(""): "norm 'a': | make=",
    NORM.format("make=lambda w, r: 3"): "norm 'a': | int",
    NORM.format("make=lambda w: 3"): "norm 'a': make | (w) | (width, run): write lambda width, run: ...",
    NORM.format("make=type('A', (), {'__init__': lambda self, eps, *, width: None})"): "norm 'a': make | (width, run)",
    NORM.format("make=3"): "norm 'a': make is 3 | write lambda width, run: ...",
    NORM.format("keys='eps', make=3"): "norm 'a': keys | write frozenset({'eps'})",
    NORM.format("make=lambda width, run: type('A', (torch.nn.Module,), {'forward': lambda self: 1})()"): (
        "norm 'a': | forward | (x): write lambda x: ..."
    ),
    NORM.format("make=lambda w, r: r.heads"): "norm 'a': x.py:3: AttributeError: | 'heads' | keys=",
    NORM.format("keys={'head'}, make=print"): "norm 'a': | head: it may read depth, norm",
    NORM.format("make=lambda w, r: torch.nn.Linear(w, 3)"): "norm 'a': | (2, 3, 3) | (2, 3, 8)",
    NORM.format("").replace("'a'", "'ln'"): "norm 'ln': | already",
    NORM.format("").replace("'a'", "'A b'"): "norm 'A b': | 32",
    SCHEME.format("doors=lambda: frozenset()"): "scheme 's': doors | (site): write lambda site: ...",
    SCHEME.format("doors=lambda site: 'before'"): "scheme 's': doors | 'before' at Site(layer=1",
    SCHEME.format("doors=lambda s: s.values['lr']"): "scheme 's': | 'lr' | keys=frozenset({'lr'})",
    SCHEME.format("doors=everywhere('top')"): "scheme 's': | top: doors are before",
    SCHEME.format("skip=Scale(lambda: 1)"): "scheme 's': | skip | (site): write lambda site: ...",
    SCHEME.format("skip=Scale(lambda s: 1 / 0)"): "scheme 's': x.py:2: ZeroDivisionError",
    SCHEME.format("skip=constant(float('nan'))"): "scheme 's': skip is nan at Site(layer=1",
    SCHEME.format("skip=2.0, gains={'zz': abs}"): "scheme 's': skip, gains of 'zz': | Scale(...)",
    SCHEME.format("gains={'v': lambda: 1}"): "scheme 's': | 'v' | (depth): write lambda depth: ...",
    SCHEME.format("gains=['v']"): "scheme 's': gains is ['v'] | lambda depth: ...",
    SCHEME.format("keys=frozenset({'lr'})"): "scheme 's': | lr: it may read depth, norm",
}
"""Texts of plugins, and the facts of the error, separated by ` | `."""


READS = """
from torch import nn
from normexp.norms import Norm
from normexp.schemes import Scale, Scheme, everywhere
def make(width, run):
    norm = nn.LayerNorm(width, eps=run.dyt_alpha)
    return norm
NORMS = {"reads": Norm(make=make, help="", source="", keys=frozenset({"dyt_alpha"}))}
SHARE = frozenset({"post_share"})
SCHEMES = {
    "some": Scheme(
        doors=lambda s: frozenset({"before"} if s.layer <= s.values["post_share"] * s.depth else ()),
        final_norm=False, help="", source="", keys=SHARE,
    ),
    "scaled": Scheme(
        doors=everywhere("before"), final_norm=False, help="", source="", keys=SHARE,
        branch_out=Scale(lambda s: s.values["post_share"]),
    ),
}
"""


def test_only_what_a_row_reads_is_part_of_the_id() -> None:
    def ids(key: str, values: tuple[float, ...], **keys: object) -> int:
        return len({RunConfig(**{key: value, **keys}).run_id for value in values})

    with plugins.using(Plugin("x.py", READS)):
        assert ids("dyt_alpha", (0.1, 2.0), norm="reads", depth=3) == 2
        assert ids("eps", (0.1, 2.0), norm="reads", depth=3) == 1
        assert ids("post_share", (0.4, 1.0), position="some", depth=3) == 2
        assert ids("post_share", (0.4, 1.0), position="some", depth=3, norm="none") == 1
        assert ids("post_share", (0.4, 1.0), position="scaled", depth=3, norm="none") == 2
        assert ids("post_share", (0.4, 1.0), position="pre", depth=3) == 1
        run = RunConfig(position="some", post_share=1.0, depth=3)
        assert run.canonical().norm == "ln"
        assert replace(run, post_share=0.1).canonical().norm == "none"


@pytest.mark.parametrize(("text", "facts"), BAD.items(), ids=range(len(BAD)))
def test_bad_files_are_rejected_and_add_nothing(text: str, facts: str) -> None:
    before = set(NORMS), set(SCHEMES), plugins.loaded()
    with pytest.raises(UserError) as caught:
        plugins.add(Plugin("x.py", text))
    assert all(fact in str(caught.value) for fact in facts.split(" | ")), caught.value
    assert (set(NORMS), set(SCHEMES), plugins.loaded()) == before
    assert f"normexp_plugin_{Plugin('x.py', text).digest}" not in sys.modules


def test_unreadable_files_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    for path, fact in (("none.py", "No such file"), (".", "Is a directory"), ("binary.py", "UTF-8")):
        with pytest.raises(UserError, match=fact):
            plugins.read(tmp_path / path)


def test_a_row_belongs_to_its_origin() -> None:
    table: Registry[int] = Registry("thing", {"one": 1})
    table.add("two", 2, "here")
    table.add("two", 22, "here")
    assert dict(table) == {"one": 1, "two": 22}
    with pytest.raises(ValueError, match="already"):
        table.add("two", 2, "there")
    assert (table.origin("one"), table.origin("two"), table.origin("three")) == ("", "here", "")
    for name, origin in (("one", "here"), ("two", "there"), ("none", "here"), ("Two", "here"), ("", "here")):
        with pytest.raises(ValueError, match="name"):
            table.add(name, 3, origin)
    table.remove("here")
    assert dict(table) == {"one": 1}


def test_a_plugin_can_be_used_temporarily() -> None:
    with plugins.using(plugins.read(EXAMPLE)):
        assert "l1" in NORMS
        assert len(plugins.loaded()) == 1
    assert "l1" not in NORMS
    assert "fading" not in SCHEMES
    assert plugins.loaded() == ()


def test_an_error_in_a_plugin_is_located_in_its_file() -> None:
    text = (
        "from torch import nn\nfrom normexp.schemes import Norm\nclass Bad(nn.Module):\n"
        "    def forward(self, x):\n        return x if x.shape[-1] == 8 else [][1]\n"
        "NORMS = {'bad': Norm(help='', source='', make=lambda width, run: Bad())}"
    )
    with plugins.using(Plugin("bad.py", text)):
        module = NORMS["bad"].make
        assert module is not None
        with pytest.raises(IndexError) as caught:
            module(4, RunConfig())(torch.ones(2, 4))
        assert plugins.blamed(caught.value) == "bad.py:5: IndexError: list index out of range"
        assert plugins.blamed(ValueError("ours")) == ""


def test_a_byte_order_mark_is_ignored() -> None:
    with plugins.using(Plugin("marked.py", "\ufeff" + EXAMPLE.read_text())):
        assert "l1" in NORMS


def test_printed_commands_include_the_plugins(tmp_path: Path) -> None:
    """Without the plugins, the commands would be rejected."""
    (tmp_path / "own.yaml").write_text("base: {depth: 1}\ngrid: {norm: [ln, l1]}\n")
    (tmp_path / "mine.yaml").write_text(
        "sweeps: [own.yaml]\nclaims:\n  - {id: of.it, section: '1', text: It, stated: so, kind: sweep, check: ends,\n"
        "     with: {outcomes: learned}, runs: {sweeps: own, where: {norm: l1}}}\n"
    )
    with plugins.using(Plugin("my own.py", EXAMPLE.read_text())):
        file = load(tmp_path / "mine.yaml")
        report = markdown(claims_report.page(file, judged(file, file.claims, tmp_path), {}, scale=1.0, more=""))
        printed = commands(file, file.claims[0], tmp_path)
        (plan,) = plans(file, ["own"]).values()
        printed += re.findall("`(normexp merge .*)`", shards.join_hint(plan.part(Shard(1, 2)), tmp_path))
    printed += [line.strip() for line in report.splitlines() if line.strip().startswith("normexp claims ")]
    assert len(printed) == 5, printed
    assert all(line.endswith(" --plugin 'my own.py'") for line in printed), printed
