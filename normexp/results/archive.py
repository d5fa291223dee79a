"""Files in a .tar.xz and back, in memory: plain files alone, and no more than fit, whatever it claims to hold."""

from __future__ import annotations

import io
import lzma
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from normexp.errors import UserError
from normexp.results.atomic import storage_errors

FILTERS: list[dict[str, Any]] = [
    {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}
]
"""Tuned to digits; any xz reads them."""
MOST_BYTES = 2**31
"""Of what an archive unpacks to: a few kilobytes may claim to hold any number."""
MOST_FILES = 10**6


def packed(files: Mapping[str, bytes]) -> bytes:
    """An archive without times, owners or modes of this machine. Raises UserError for more than is unpacked again."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    if len(files) > MOST_FILES or buffer.tell() > MOST_BYTES:
        raise UserError(f"{len(files)} files of {buffer.tell() / 1e9:.1f} GB are too many for one pack")
    return lzma.compress(buffer.getvalue(), filters=FILTERS)


def files_of(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file, in order; only who comes to the end knows that the archive is whole.

    Raises StorageError where it cannot be read, and lzma.LZMAError, tarfile.TarError, EOFError, ValueError or
    MemoryError where it is damaged, too large, or holds anything but plain files.
    """
    with storage_errors(path, "read"), lzma.open(path) as stream:
        bounded = _Bounded(stream)
        with tarfile.open(fileobj=bounded, mode="r|") as tar:
            for count, member in enumerate(tar, 1):
                content = tar.extractfile(member) if member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) else None
                if content is None:
                    raise ValueError(f"{member.name[:80]!r} is no plain file")
                if count > MOST_FILES:
                    raise ValueError(f"it holds more than {MOST_FILES} files")
                yield member.name, content.read()
        while bounded.read(2**20):  # its end, where the checksum stands
            pass


class _Bounded(io.BufferedIOBase):
    """A stream that refuses to give more than MOST_BYTES."""

    def __init__(self, stream: lzma.LZMAFile) -> None:
        self._stream, self._left = stream, MOST_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        most = self._left + 1
        data = self._stream.read(most if size is None or size < 0 else min(size, most))
        self._left -= len(data)
        if self._left < 0:
            raise ValueError(f"it unpacks to more than {MOST_BYTES / 1e9:.1f} GB")
        return data
