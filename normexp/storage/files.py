"""The report of claims in a results folder, beside its sweeps.

Files that are there whole or not at all.

Files for other programs, where the user wants them: nothing that is there is replaced unless asked for.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from normexp.errors import UserError

SUFFIX = ".tmp"
ADVICE = {
    errno.EISDIR: "remove that folder",
    errno.EEXIST: "remove what stands in its place",
    errno.ENOTDIR: "remove the file that stands in the place of a folder",
    errno.ELOOP: "remove the symbolic link",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.EACCES: "change its permissions, or use another folder",
    errno.EPERM: "change its permissions, or use another folder",
    errno.EROFS: "use a folder on another file system",
    errno.ENOSPC: "free some space, or use another disk",
    errno.EDQUOT: "free some of your quota, or use another disk",
    errno.EFBIG: "raise the limit that `ulimit -f` shows",
    errno.EIO: "check the disk",
    errno.ESTALE: "the file server no longer knows it: run the command again",
}
"""What helps, by what the system said."""
NOT_SUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}
"""What a file system says that has no fsync, of folders or at all: a power cut may then lose the last files."""


class StorageError(UserError):
    """The disk would not take a file: full, read-only, gone. Names the path and the reason."""


class NotFollowed(UserError):
    """A symbolic link, a pipe or a device where there should be a file or folder of ours."""


@contextlib.contextmanager
def storage_errors(path: Path, doing: str = "write", advice: Mapping[int, str] = ADVICE) -> Iterator[None]:
    """Turn an OSError, or a name that the file system's encoding lacks, into a StorageError about `path`.

    `advice` says what helps, by error number.
    """
    try:
        yield
    except UnicodeEncodeError as error:
        lacking = ascii(error.object[error.start : error.end])
        raise StorageError(
            f"cannot {doing} {path}: the locale's encoding, {error.encoding}, has no {lacking}: "
            "give the sweep another name, or set a UTF-8 locale (LC_ALL=C.UTF-8)"
        ) from error
    except OSError as error:
        helps = f" ({advice[error.errno]})" if error.errno is not None and error.errno in advice else ""
        raise StorageError(f"cannot {doing} {path}: {error.strerror or error}{helps}") from error


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write to a temporary name in the same folder, fsync, rename. Text becomes UTF-8. Raises StorageError."""
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}{SUFFIX}")
    with storage_errors(path):
        _remove_of_the_dead(path)
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                _sync(file.fileno())
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def rewrite(path: Path, text: str) -> None:
    """Give a text file of the user's another text, with its byte order mark and rights, where a link leads.

    Raises StorageError, also for one that is read-only, which a rename would replace.
    """
    with storage_errors(path):
        place = path.resolve()
        with place.open("r+b") as file:
            mark = codecs.BOM_UTF8 if file.read(3) == codecs.BOM_UTF8 else b""
            mode = os.fstat(file.fileno()).st_mode
        write_atomically(place, mark + text.encode())
        place.chmod(mode)


def below(folder: Path, *names: str) -> Path:
    """The path of a file or folder in one of ours, there or not.

    Raises NotFollowed where a name is that of a symbolic link, which may lead anywhere, or of a pipe or a device.
    """
    path = folder
    for name in names:
        path = path / name
        with contextlib.suppress(OSError, ValueError):  # who uses it will meet that
            mode = path.lstat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                kind = "a symbolic link" if stat.S_ISLNK(mode) else "a pipe or a device"
                raise NotFollowed(f"{path} is {kind}, which is not followed: put what it stands for in its place")
    return path


def read_those(folder: Path, names: Iterable[str]) -> dict[str, bytes]:
    """The files that are there, by name, though another process may remove one meanwhile. Raises StorageError."""
    found: dict[str, bytes] = {}
    for name in names:
        with storage_errors(folder / name, "read"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found[name] = below(folder, name).read_bytes()
    return found


def is_readable(path: Path) -> bool:
    """Whether there is a file, as far as this user may know."""
    try:
        return path.is_file()
    except OSError:
        return False


def folders_in(root: Path) -> list[Path]:
    """What stands in a folder, by name; nothing where there is none. Raises StorageError."""
    with storage_errors(root, "read"):
        return sorted(root.iterdir()) if root.is_dir() else []


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, unless it is there. Raises StorageError."""
    with storage_errors(folder, "make"):
        folder.mkdir(parents=True, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder outlast a power cut, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        _sync(handle)
    finally:
        os.close(handle)


def _sync(handle: int) -> None:
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in NOT_SUPPORTED:
            raise


def _remove_of_the_dead(path: Path) -> None:
    """Remove what killed writers of this machine left of a file; another's may live."""
    if os.name != "posix":
        return
    start = f".{path.name}.{socket.gethostname()}."
    for name in os.listdir(path.parent):
        pid = name.removeprefix(start).removesuffix(SUFFIX)
        if name == f"{start}{pid}{SUFFIX}" and pid.isdecimal() and not _lives(int(pid)):
            (path.parent / name).unlink(missing_ok=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's
        pass
    return True


def remove_leftovers(folder: Path) -> None:
    """Remove what killed writers left in a folder which the caller holds. Raises StorageError."""
    with storage_errors(folder, "clean"):
        for path in folder.glob(f".*{SUFFIX}"):
            path.unlink(missing_ok=True)


def refuse_what_is_there(target: Path) -> None:
    """Raise UserError where a file is there already, or a folder that holds something."""
    with storage_errors(target, "read"):
        there = next(target.iterdir(), None) is not None if target.is_dir() else target.exists()
    if there:
        raise UserError(f"{target} is there already: replace it with --force, or give another --out")


def write_exported(files: Iterable[tuple[Path, bytes]]) -> list[Path]:
    """Write each file whole, making its folder if need be; one at a time is held. Raises StorageError."""
    made = []
    for path, content in files:
        make_folder(path.parent)
        write_atomically(path, content)
        made.append(path)
    return made


REPORT, WEBPAGE, VERDICTS = "REPORT.md", "report.html", "verdicts.csv"
"""Its files; a sweep's own page has the name of the WEBPAGE too."""


def write_report(out: Path, name: str, content: str) -> Path:
    """Write a file of the report, whole or not at all. Raises StorageError."""
    make_folder(out)
    write_atomically(out / name, content)
    return out / name
