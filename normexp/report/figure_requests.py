"""Check the options of `normexp plot`, draw the figures, and write them with their data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from normexp.analysis import frames
from normexp.config import plan as filters
from normexp.errors import UserError
from normexp.plots.chart import Chart, Map
from normexp.plots.choice import Choice, Source
from normexp.plots.kinds import KINDS, compute, fitting, kind_of
from normexp.plots.style import LIGHT, THEMES, WIDTHS, Look, Theme, Width
from normexp.report import report
from normexp.schemes.network_config import Value
from normexp.storage.files import make_folder, write_atomically
from normexp.storage.store import FIGURES, Store

FORMATS = ("svg", "png", "pdf")
COLORS = ("outcome", "fraction")
NO_FACET = "none"
DEFAULT_FORMATS = "svg,png"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The checked options of `normexp plot`. A `kind` of None stands for all kinds that fit the sweep.

    A `title` of None stands for the title of the sweep.
    """

    kind: str | None
    choice: Choice
    only: dict[str, list[Value]]
    title: str | None
    themes: Sequence[Theme]
    formats: Sequence[str]
    width: Width
    to: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The files that were written, and warnings about them."""

    paths: Sequence[Path]
    warnings: Sequence[str]


def read(
    *,
    kind: str | None = None,
    x: str | None = None,
    y: str | None = None,
    facets: Sequence[str] | None = None,
    color: str = "outcome",
    only: Sequence[str] = (),
    title: str | None = None,
    themes: str = "light",
    formats: str | None = None,
    width: str = "full",
    to: Path | None = None,
) -> Request:
    """Return a request from options as the user writes them. Raises UserError with all complaints at once."""
    if kind is not None:
        kind_of(kind)
    complaints: list[str] = []
    chosen = [_one_of("--theme", word, THEMES, complaints) for word in themes.split(",")]
    suffixes = [_one_of("--format", word, FORMATS, complaints) for word in (formats or DEFAULT_FORMATS).split(",")]
    (wide,) = (_one_of("--width", word, WIDTHS, complaints) for word in (width,))
    _one_of("--color", color, COLORS, complaints)
    if kind is None and (x or y or facets or title is not None or color != COLORS[0]):
        names = "--x, --y, --facet, --color and --title"
        complaints.append(f"{names} apply to a single figure: choose it with --kind {'|'.join(KINDS)}")
    if to is not None and to.suffix:
        suffix = _one_of("--to: a file that ends in", to.suffix.removeprefix("."), FORMATS, complaints)
        if formats is not None and suffixes != [suffix]:
            complaints.append(f"--to {to}: ends in {suffix}, but --format is {formats}: remove one of them")
        suffixes = [suffix]
        if kind is None:
            complaints.append(f"--to {to}: a file holds a single figure: choose it with --kind {'|'.join(KINDS)}")
    if complaints:
        raise UserError(*complaints)
    named = None if not facets else tuple(key for text in facets for key in text.split(",") if key != NO_FACET)
    return Request(
        kind=kind,
        choice=Choice(x=x, y=y, facets=named, by_fraction=color == "fraction"),
        only=filters.parse_point_filter(only),
        title=title,
        themes=[THEMES[word] for word in chosen],
        formats=list(dict.fromkeys(suffixes)),
        width=WIDTHS[wide],
        to=to,
    )


def _one_of(
    option: str, word: str, known: Sequence[str] | dict[str, Theme] | dict[str, Width], complaints: list[str]
) -> str:
    if word not in known:
        complaints.append(f"{option} {word}: choose one of {', '.join(known)}")
    return word


def plot(store: Store, request: Request) -> Drawn:
    """Draw and write the requested figures. Raises UserError, StorageError."""
    from normexp.plots.drawing import draw, render

    plan, records = store.read_plan(), store.records()
    traces = report.traces_of(store, records)
    source = Source(plan=plan, records=records, runs=frames.runs(plan, records), traces=traces)
    if request.only:
        source = source.only(request.only)
    paths: list[Path] = []
    warnings: list[str] = []
    for file, data in _figures(source, request):
        folder, stem = _target(store, request, file)
        make_folder(folder)
        write_atomically(folder / f"{stem}.csv", frames.to_csv(data.data))
        paths.append(folder / f"{stem}.csv")
        for theme in request.themes:
            look = Look(theme=theme, width=request.width)
            plain = len(request.themes) == 1 and (theme is LIGHT or request.to is not None)
            name = stem if plain else f"{stem}-{theme.name}"
            for suffix, content in render(draw(data, look), request.formats, dpi=request.width.dpi).items():
                write_atomically(folder / f"{name}.{suffix}", content)
                paths.append(folder / f"{name}.{suffix}")
        warnings += [f"{stem}: {note}: choose with --only or --facet" for note in data.notes if "not drawn" in note]
    return Drawn(paths=paths, warnings=[*store.warnings, *report.warnings(records, []), *warnings])


def _figures(source: Source, request: Request) -> Iterator[tuple[str, Chart | Map]]:
    if request.kind is not None:
        data = compute(request.kind, source, request.choice)
        yield KINDS[request.kind].file, data if request.title is None else replace(data, title=request.title)
    else:
        yield from ((kind.file, data) for _, kind, data in fitting(source))


def _target(store: Store, request: Request, file: str) -> tuple[Path, str]:
    """Return the folder and the stem of a figure's files. A target with a suffix is the file of a single figure.

    In the folder of the report's figures, other figures get a suffix, so that they do not overwrite them.
    """
    if request.to is None:
        own = request.choice != Choice() or request.only or request.title is not None
        parts = [file, *(["own"] if own else []), *([request.width.name] if request.width != Look().width else [])]
        return store.folder / FIGURES, "-".join(parts)
    if request.to.suffix:
        return request.to.parent, request.to.stem
    return request.to, file
