"""Calculations of plugins in the claims files of a user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from commandline import invoke

from normexp.claims import parser
from normexp.claims.calculations import COMPUTED, calculate, calculations
from normexp.config import plugins
from normexp.config.plugins import Plugin
from normexp.errors import UserError

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "jacobian.py"
CLAIMS = ROOT / "examples" / "jacobian.yaml"
TEXT = """
from normexp.texts.figures import one_seed
def odd(seed):
    '''
    the seed is odd
    More.
    '''
    return one_seed(seed % 2 == 1, str(seed), f"seed {seed}")
def wrong(seed, figures):
    "it holds"
    return figures[0] == "1"
def broken(seed):
    "it holds"
    return 1 / 0
CALCULATIONS = {"odd": odd, "wrong": wrong, "broken": broken}
"""


@pytest.fixture
def own() -> Iterator[None]:
    with plugins.using(Plugin("own.py", TEXT)):
        yield


def claims(check: str, rest: str = "") -> str:
    return f"claims: [{{id: a.b, section: '1', text: t, stated: s, kind: compute, check: {check}{rest}}}]"


def test_the_example_decides_its_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with plugins.using(plugins.read(EXAMPLE)):
        one = invoke("claims", CLAIMS, "jacobian.inverse", "--plugin", EXAMPLE)
        assert (one.code, one.out.count("ratio of the gradients 0.1000")) == (0, 3)
        assert f"--plugin {EXAMPLE}" in one.out
        assert "gradient_shrinks" in invoke("claims", "--checks", "--plugin", EXAMPLE).out
        assert [calculate("gradient_shrinks", 0, [figure]).holds for figure in ("0.1", "0.2")] == [True, False]
    lacking = invoke("claims", CLAIMS)
    assert (lacking.code, "gradient_shrinks" in lacking.err, "Traceback" in lacking.err) == (2, True, False)


def test_the_recipe_shows_the_example() -> None:
    (block,) = (ROOT / "docs" / "recipes" / "own-claim.md").read_text("utf-8").split("```python\n")[1:]
    assert EXAMPLE.read_text("utf-8").endswith(block.split("```")[0])


@pytest.mark.usefixtures("own")
def test_rows_follow_from_the_functions() -> None:
    rows = calculations()
    assert {name: (row.help, row.figures) for name, row in rows.items() if name not in COMPUTED} == {
        "odd": ("the seed is odd", 0),
        "wrong": ("it holds", None),
        "broken": ("it holds", 0),
    }
    assert [calculate("odd", seed).holds for seed in (0, 1)] == [False, True]
    assert parser.parse(claims("wrong", ", with: {figures: 1}"), Path("c.yaml")).claims


def test_a_calculation_is_unknown_without_its_plugin() -> None:
    with pytest.raises(UserError, match=r"c.yaml:1: .*'odd'.*--plugin FILE.py"):
        parser.parse(claims("odd"), Path("c.yaml"))


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(("check", "rest"), [("odd", ", with: {figures: 1}"), ("wrong", "")])
def test_figures_must_fit_the_function(check: str, rest: str) -> None:
    with pytest.raises(UserError, match=f"c.yaml:1: .*{check}.*figures"):
        parser.parse(claims(check, rest), Path("c.yaml"))


def test_errors_of_a_calculation_name_it(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(TEXT)
    facts = {"wrong": ["'wrong'", "bool", "one_seed("], "broken": ["own.py:14: ZeroDivisionError"]}
    for check, expected in facts.items():
        (tmp_path / "c.yaml").write_text(claims(check, ", with: {figures: 1}" if check == "wrong" else ""))
        done = invoke("claims", "c.yaml", "--plugin", "own.py", cwd=tmp_path)
        plugins.remove(plugins.read(tmp_path / "own.py"))
        assert (done.code, [fact for fact in expected if fact not in done.err]) == (2, []), done.err
