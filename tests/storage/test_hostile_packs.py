"""Packs from other people: nothing is written outside of the folder, and sizes are limited."""

from __future__ import annotations

import io
import lzma
import tarfile
from pathlib import Path

import pytest
from others import elsewhere, learned

from normexp.errors import UserError
from normexp.storage import packs
from normexp.storage.packs import named, pack, unpack
from normexp.storage.store import PACK, RUN, RUNS, Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return learned(tmp_path / "results")


def written(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for member, content in members:
            tar.addfile(member, io.BytesIO(content))
    path.write_bytes(lzma.compress(buffer.getvalue()))


def member(name: str, *, kind: bytes = tarfile.REGTYPE, size: int = 0, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size, target
    return info


class TestPacks:
    def refused(self, folder: Path, fact: str) -> None:
        before = sorted(folder.parent.rglob("*"))
        for use in (unpack, named):
            with pytest.raises(UserError, match=fact):
                use(folder / PACK)
        assert sorted(folder.parent.rglob("*")) == before

    @pytest.mark.parametrize(
        "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE]
    )
    def test_anything_but_a_regular_file_is_refused(self, tmp_path: Path, kind: bytes) -> None:
        written(tmp_path / PACK, (member(f"{RUNS}/a/{RUN}", kind=kind, target="/etc/passwd"), b""))
        self.refused(tmp_path, f"'{RUNS}/a/{RUN}'")

    @pytest.mark.parametrize(
        "name",
        ["../evil", "/evil", f"{RUNS}/../../evil/{RUN}", f"{RUNS}/a/../{RUN}", f"{RUNS}/a/run.json/x", "a\0b", ""],
    )
    def test_no_name_leads_out_of_the_folder(self, tmp_path: Path, name: str) -> None:
        written(tmp_path / PACK, (member(name, size=1), b"x"))
        with pytest.raises(UserError, match="damaged"):
            unpack(tmp_path / PACK)
        assert [path.name for path in tmp_path.iterdir()] == [PACK]

    def test_the_unpacked_size_is_limited(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(packs, "MOST_BYTES", 10**6)
        big = b"\0" * 3 * 10**6
        written(tmp_path / PACK, (member(f"{RUNS}/a/{RUN}", size=len(big)), big))
        assert (tmp_path / PACK).stat().st_size < 2000
        self.refused(tmp_path, "0.0 GB")

    def test_a_sparse_file_does_not_grow(self, tmp_path: Path) -> None:
        info = member(f"{RUNS}/a/{RUN}", kind=tarfile.GNUTYPE_SPARSE)
        header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
        header[483:495] = b"77777777777\0"  # its size when it has grown: 8 GiB
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        (tmp_path / PACK).write_bytes(lzma.compress(bytes(header) + b"\0" * 1024))
        self.refused(tmp_path, f"'{RUNS}/a/{RUN}'")

    def test_too_many_files_are_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(packs, "MOST_FILES", 3)
        written(tmp_path / PACK, *((member(f"{RUNS}/{name}/{RUN}"), b"") for name in "abcd"))
        self.refused(tmp_path, "more than 3 files")

    def test_sweeps_beyond_the_limits_are_not_packed(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(packs, "MOST_BYTES", 10**3)
        with pytest.raises(UserError, match="too much for one pack"):
            pack(store)
        assert not (store.folder / PACK).exists()

    def test_nothing_is_restored_through_a_link(self, store: Store, tmp_path: Path) -> None:
        pack(store)
        elsewhere(store.folder / RUNS, tmp_path / "outside")
        for path in (tmp_path / "outside").rglob(RUN):
            path.unlink()
        with pytest.raises(UserError, match="symbolic link"):
            unpack(store.folder / PACK)
        assert not list((tmp_path / "outside").rglob(RUN))
