"""The README says what the code does."""

import re
from pathlib import Path

import pytest

from normexp import errors, reference
from normexp.claims import files, reading
from normexp.cli.app import app
from normexp.outcome import RULES, TREND

CODES = [
    errors.EXIT_RUNS_FAILED,
    errors.EXIT_USAGE,
    errors.EXIT_VERDICT_DIFFERS,
    errors.EXIT_SIGINT,
    errors.EXIT_SIGTERM,
]
ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = sorted(set(re.findall(r"normexp ([a-z]+)\b", "\n".join(re.findall(r"`([^`]*)`", README)))))


def test_its_config_reference_is_that_of_the_key_table() -> None:
    assert reference.replaced(README) == README


@pytest.mark.parametrize("outcome", RULES)
def test_it_states_every_outcome_rule(outcome: str) -> None:
    assert f"| `{outcome}` | {RULES[outcome]} |" in README
    assert f"less than {TREND:.0%}".replace("%", " %") in README


@pytest.mark.parametrize("name", COMMANDS)
def test_the_commands_that_it_names_exist(name: str) -> None:
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert name in known


@pytest.mark.parametrize("code", CODES)
def test_it_lists_every_exit_code(code: int) -> None:
    table = README.split("## Exit codes")[1].split("\n## ")[0]
    assert re.search(rf"^\|[^|]*\b{code}\b[^|]*\|", table, re.MULTILINE)


def test_its_pictures_are_there() -> None:
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README)
    assert pictures
    assert all((ROOT / picture).is_file() for picture in pictures)


def test_its_config_is_the_one_that_is_shipped() -> None:
    shown = README.split("## Config")[1].split("```yaml\n")[1].split("```")[0]
    assert shown == (ROOT / "configs" / "lr_scan.yaml").read_text("utf-8")


def test_it_counts_the_claims() -> None:
    article, papers = (reading.load(files.shipped()[name]).claims for name in ("article", "papers"))
    assert f"Each of its claims, {len(article)} of them," in README
    assert f"\n{len(papers)} of the literature are in `papers.yaml`" in README
