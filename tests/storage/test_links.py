"""Results folders whose parts are symbolic links or pipes: nothing is followed out of them, and nobody waits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import records as made
from others import elsewhere, ids, learned

from normexp.errors import UserError
from normexp.storage import index, outputs
from normexp.storage.packs import pack
from normexp.storage.store import CURVE, FIGURES, LOG, MANIFEST, RUN, RUNS, SWEEP, WEIGHTS, Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return learned(tmp_path / "results")


class TestLinks:
    """A results folder from elsewhere whose parts are symbolic links: nothing is read or written through them."""

    @pytest.mark.parametrize("name", [RUNS, FIGURES])
    def test_nothing_is_written_through_a_linked_folder(self, store: Store, tmp_path: Path, name: str) -> None:
        outside = tmp_path / "outside"
        (store.folder / FIGURES).mkdir()
        elsewhere(store.folder / name, outside)
        victim = outside / ".victim.tmp"
        victim.write_text("mine")
        with pytest.raises(UserError, match="symbolic link, which is not followed"):
            store.begin(made.plan({"lr": [1e-3, 1e-2]}), [], force=True)
        with pytest.raises(UserError, match="symbolic link"):
            store.write_derived(f"{name}/x.csv", "x")
        assert victim.read_text() == "mine"

    def test_a_linked_run_is_pending_and_not_written_through(self, store: Store, tmp_path: Path) -> None:
        run_id = ids(store)[0]
        elsewhere(store.folder / RUNS / run_id, tmp_path / "outside")
        before = sorted(path.name for path in (tmp_path / "outside").iterdir())
        assert run_id not in store.records()
        assert "symbolic link, which is not followed" in store.warnings[0]
        for use in (
            lambda: store.write(made.done(made.plan({"lr": [1e-3, 1e-2]}).configs[run_id], 1.5)),
            lambda: store.begin(made.plan({"lr": [1e-3, 1e-2]}), [], force=False),
            lambda: store.log(run_id),
        ):
            with pytest.raises(UserError, match="symbolic link"):
                use()
        assert sorted(path.name for path in (tmp_path / "outside").iterdir()) == before

    @pytest.mark.parametrize("name", [LOG, CURVE])
    def test_linked_files_are_not_packed(self, store: Store, tmp_path: Path, name: str) -> None:
        secret = tmp_path / "secret"
        secret.write_text("secret")
        path = store.folder / RUNS / ids(store)[0] / name
        path.unlink()
        path.symlink_to(secret)
        packed = pack(store)
        assert any("symbolic link" in warning and "not packed" in warning for warning in packed.warnings)
        assert packed.runs == len(ids(store)) - 1
        with pytest.raises(UserError, match="symbolic link"):
            store.read(ids(store)[0])

    def test_linked_files_are_not_in_reports(self, store: Store, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("secret")
        (store.folder / FIGURES).mkdir()
        (store.folder / FIGURES / "curves.png").symlink_to(tmp_path / "secret")
        with pytest.raises(UserError, match="symbolic link"):
            outputs.pictures(store.folder)

    def test_links_of_another_sweep_are_skipped(self, store: Store, tmp_path: Path) -> None:
        run_id = ids(store)[0]
        for name in (RUN, WEIGHTS):
            path = store.folder / RUNS / run_id / name
            path.unlink(missing_ok=True)
            path.symlink_to(tmp_path / "outside")
        here = Store(tmp_path / "results" / "here")
        for weights in (False, True):
            assert here.find_elsewhere(tmp_path / "results", run_id, weights=weights) is None
        assert set(index.records(tmp_path / "results")) == {ids(store)[0]} - {run_id} | {ids(store)[-1]}

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
    @pytest.mark.parametrize("name", [MANIFEST, SWEEP, f"{RUNS}/RUN_ID/{RUN}", f"{RUNS}/RUN_ID/{CURVE}"])
    def test_pipes_are_not_waited_for(self, store: Store, name: str) -> None:
        run_id = ids(store)[0]
        path = store.folder / name.replace("RUN_ID", run_id)
        path.unlink()
        os.mkfifo(path)
        message = ""
        try:
            store.read_plan()
            store.records()
            store.traces(run_id)
        except UserError as fault:
            message = str(fault)
        assert "a pipe or a device" in message + "".join(store.warnings)
