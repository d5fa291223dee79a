"""What stands where files of a sweep go: found before its first run, for what that gives would have no place."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from normexp.errors import UserError
from normexp.results.reportfiles import WEBPAGE
from normexp.results.store import CURVE, DEATH, DRAWN, FIGURES, LAYERS, LOG, RUN, RUNS, TABLES, WEIGHTS, Store


def check_places(store: Store, run_ids: Iterable[str]) -> None:
    """Raise UserError for what is no folder in the place of one, and no file in that of a table, or of these runs."""
    runs = [store.folder / RUNS / run_id for run_id in run_ids]
    files = [folder / name for folder in runs for name in (RUN, CURVE, LAYERS, DEATH, LOG, WEIGHTS)]
    files += [store.folder / name for name in (*TABLES, WEBPAGE, DRAWN)]
    told = [
        f"{path} is no folder: remove it" for path in (store.folder / FIGURES, *runs) if not _is(stat.S_ISDIR, path)
    ]
    told += [f"{path} is no file: remove it" for path in files if not _is(stat.S_ISREG, path)]
    if told:
        raise UserError(*told)


def _is(kind: Callable[[int], bool], path: Path) -> bool:
    """Whether it is of a kind, and no link to such; or not there."""
    try:
        return kind(path.lstat().st_mode)
    except OSError:
        return True
