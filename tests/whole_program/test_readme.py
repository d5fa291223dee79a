"""The README says what the code does."""

import re
import signal
from pathlib import Path

import pytest

from normexp import errors, reference
from normexp.claims import files, parser
from normexp.commands.app import app
from normexp.execution.signals import Stopped
from normexp.records.outcome import TREND

CODES = [
    errors.EXIT_RUNS_FAILED,
    errors.EXIT_USAGE,
    errors.EXIT_VERDICT_DIFFERS,
    Stopped(signal.SIGINT).exit_code,
    Stopped(signal.SIGTERM).exit_code,
]
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = sorted(set(re.findall(r"normexp ([a-z]+)\b", "\n".join(re.findall(r"`([^`]*)`", README)))))


@pytest.mark.parametrize("name", ["config", "outcomes", "schemes", "commands"])
def test_generated_texts_are_those_of_the_code(name: str) -> None:
    text = (DOCS / f"{name}.md").read_text("utf-8")
    assert reference.replaced(text) == text


def test_every_outcome_rule_is_stated() -> None:
    text = (DOCS / "outcomes.md").read_text("utf-8")
    assert f"less than {TREND:.0%}".replace("%", " %") in text


def test_the_commands_that_it_names_exist() -> None:
    assert set(COMMANDS) <= {command.name or command.callback.__name__ for command in app.registered_commands}


@pytest.mark.parametrize("code", CODES)
def test_it_lists_every_exit_code(code: int) -> None:
    table = README.split("## Exit codes")[1].split("\n## ")[0]
    assert re.search(rf"^\|[^|]*\b{code}\b[^|]*\|", table, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_lead_to_files(page: Path) -> None:
    found = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8"))
    lost = [target for target in found if "://" not in target and not (page.parent / target).is_file()]
    assert not lost


def test_the_config_that_is_explained_is_the_one_that_is_shipped() -> None:
    shown = (DOCS / "config.md").read_text("utf-8").split("```yaml\n")[1].split("```")[0]
    assert shown == (ROOT / "configs" / "lr_scan.yaml").read_text("utf-8")


def test_the_claims_and_the_runs_that_are_explained_are_those_that_are_shipped() -> None:
    blocks = (DOCS / "recipes" / "own-claim.md").read_text("utf-8").split("```yaml\n")[1:]
    shipped = [(ROOT / "examples" / f"deepnorm_{name}.yaml").read_text("utf-8") for name in ("claims", "runs")]
    assert [block.split("```")[0] for block in blocks] == shipped


def test_it_counts_the_claims() -> None:
    counts = {name: len(parser.load(files.shipped()[name]).claims) for name in ("article", "papers")}
    for text in (README, (DOCS / "claims.md").read_text("utf-8")):
        assert f"{counts['article']} claims" in text
        assert f"{counts['papers']} claims of papers" in text
