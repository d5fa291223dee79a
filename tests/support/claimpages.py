"""Made-up verdicts and sweeps, the report page of them, and a reader of its HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import records as made

from normexp.claims.claim import Citation, Claim, ClaimFile, Decision, Finding, Kind, Verdict, Weight, judge
from normexp.config.plan import Pivot, Plan, Published
from normexp.report import claims_report
from normexp.report.claims_report import Sheet
from normexp.report.page import Page

HOLDS, REFUTED, UNDECIDED, TOO_FEW = Decision
SETTINGS = ("as written", "as described")
QUOTE = {"quote": "它成立", "translation": "it holds"}
VOID = {"meta", "img"}


def claim(name: str, kind: Kind = Kind.SWEEP, section: str = "6.2", **rest: object) -> Claim:
    settings = SETTINGS if kind is Kind.SWEEP else ("",)
    known: dict[str, object] = {"text": f"What {name} says", "stated": f"{name}'s figure", "place": "mine.yaml:1"}
    if kind is Kind.SWEEP:
        known |= {"settings": settings, "sweeps": ("made_up",)}
    return Claim(id=f"mine.{name}", section=section, kind=kind, **(known | rest))  # type: ignore[arg-type]


def by_runs(name: str, *decisions: Decision, runs: int = 3, quick: bool = False, **rest: object) -> Verdict:
    found = [
        Finding(
            decision=decision,
            measured=f"{name} {decision}",
            sentence="so it is",
            setting=setting,
            seeds=3,
            run_ids=tuple(f"{name}-{setting[3:]}-{number}" for number in range(runs)),
        )
        for decision, setting in zip(decisions, SETTINGS, strict=True)
    ]
    return judge(claim(name, **rest), found, quick=quick)


def cited(name: str, *, own: bool = False, agrees: bool = False) -> Verdict:
    citation = Citation(source="a paper", says="otherwise", agrees=agrees, own=own)
    return judge(claim(name, Kind.CITED, section="7.1", citation=citation), [])


def every_word(quick: bool = False) -> list[Verdict]:
    """Return one claim of each verdict, and a calculation. One has a quote, and one says why it is not checked."""
    computed = Finding(decision=Decision.HOLDS, measured="4096", sentence="counted", seeds=1)
    return [
        by_runs("holds", HOLDS, HOLDS, quick=quick, note="with a | in it", weight=Weight.CENTRAL, **QUOTE),
        by_runs("partly", HOLDS, REFUTED, quick=quick),
        by_runs("fails", REFUTED, REFUTED, quick=quick),
        by_runs("open", REFUTED, UNDECIDED, quick=quick, weight=Weight.CENTRAL),
        by_runs("thin", HOLDS, TOO_FEW, quick=quick),
        judge(claim("counted", Kind.COMPUTE, seeds=1), [computed], quick=quick),
        cited("quoted", own=False),
        cited("twice", own=True),
        cited("right", agrees=True),
        judge(claim("rumoured", Kind.NONE, why="nobody is named"), []),
    ]


def published_plan() -> Plan:
    """Return a plan with one published cell."""
    published = Published(where={"norm": "none", "lr": 1e-2}, text="NaN near step 300", source="section 6.2")
    return made.plan(
        {"norm": ["ln", "none"], "lr": [1e-3, 1e-2], "seed": [0, 1]},
        depth=2,
        pivot=Pivot(rows=("norm",), columns=("lr",)),
        published=[published],
    )


def sheet(plan: Plan, ends: Sequence[str]) -> Sheet:
    return Sheet(plan=plan, records=made.ended(plan, ends), pictures={"curves": b"\x89PNG picture"})


FULL = ("1.9", "2.1", "2.4", "2.6", "1.8", "plateau", "nan@12", "nan@33")


def page(sheets: dict[str, Sheet], verdicts: list[Verdict], scale: float = 1.0) -> Page:
    claims = tuple(verdict.claim for verdict in verdicts)
    file = ClaimFile(name="mine", title="My claims", path=Path("mine.yaml"), sweeps={}, claims=claims)
    return claims_report.page(file, verdicts, sheets, scale=scale)


class Reader(HTMLParser):
    """The text of an HTML page. It fails if a tag is not closed in order, or if something is fetched."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []
        assert len(self.ids) == len(set(self.ids))
        assert {link.removeprefix("#") for link in self.links} <= set(self.ids)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        assert tag not in ("script", "link", "iframe")
        assert tag != "img" or (found["src"] or "").startswith("data:image/png;base64,")
        self.ids += [value for key, value in attrs if key == "id" and value]
        self.links += [value for key, value in attrs if key == "href" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def plain(text: str) -> str:
    """Return Markdown without its backslashes."""
    return re.sub(r"\\(.)", r"\1", text)
