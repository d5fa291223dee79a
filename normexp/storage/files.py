"""File operations of results folders: atomic writes, and errors that name the path and a remedy."""

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

REPORT, WEBPAGE, VERDICTS = "REPORT.md", "report.html", "verdicts.csv"
"""Files of a claims report. The page of a sweep is called WEBPAGE, too."""
SUFFIX = ".tmp"
ADVICE = {
    errno.EISDIR: "remove that folder",
    errno.EEXIST: "remove the file that is in the way",
    errno.ENOTDIR: "remove the file where a folder should be",
    errno.ELOOP: "remove the symbolic link",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.EACCES: "change its permissions, or use another folder",
    errno.EPERM: "change its permissions, or use another folder",
    errno.EROFS: "use a folder on another file system",
    errno.ENOSPC: "free some space, or use another disk",
    errno.EDQUOT: "free some of your quota, or use another disk",
    errno.EFBIG: "raise the limit that `ulimit -f` shows",
    errno.EIO: "check the disk",
    errno.ESTALE: "the file server lost the file: run the command again",
}
"""Advice by error number."""
NOT_SUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}
"""Errors of file systems without fsync (of folders). After a power cut, the last files may be lost there."""


class StorageError(UserError):
    """A file or folder cannot be read or written. The message has the path and the reason."""


class NotFollowed(UserError):
    """A symbolic link, pipe or device was found in place of a regular file or folder."""


@contextlib.contextmanager
def storage_errors(path: Path, doing: str = "write", advice: Mapping[int, str] = ADVICE) -> Iterator[None]:
    """Turn an OSError, or a file name that cannot be encoded, into a StorageError about `path`.

    `advice` maps error numbers to advice.
    """
    try:
        yield
    except UnicodeEncodeError as error:
        missing = ascii(error.object[error.start : error.end])
        raise StorageError(
            f"cannot {doing} {path}: the encoding of the locale, {error.encoding}, does not have {missing}: "
            "rename the sweep, or set a UTF-8 locale (LC_ALL=C.UTF-8)"
        ) from error
    except OSError as error:
        hint = f" ({advice[error.errno]})" if error.errno is not None and error.errno in advice else ""
        raise StorageError(f"cannot {doing} {path}: {error.strerror or error}{hint}") from error


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a temporary file in the same folder, fsync and rename it. Text is encoded as UTF-8. Raises StorageError."""
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}{SUFFIX}")
    with storage_errors(path):
        _remove_abandoned(path)
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
    """Replace the text of a user's file. Keep its byte order mark and permissions, and follow symbolic links.

    Raises StorageError, also for a read-only file, which a rename would replace.
    """
    with storage_errors(path):
        target = path.resolve()
        with target.open("r+b") as file:
            mark = codecs.BOM_UTF8 if file.read(3) == codecs.BOM_UTF8 else b""
            mode = os.fstat(file.fileno()).st_mode
        write_atomically(target, mark + text.encode())
        target.chmod(mode)


def below(folder: Path, *names: str) -> Path:
    """Return the path of a file or folder below a results folder. It need not exist.

    Raises NotFollowed if a name belongs to a symbolic link, which may lead anywhere, or to a pipe or a device.
    """
    path = folder
    for name in names:
        path = path / name
        with contextlib.suppress(OSError, ValueError):  # raised again when the path is used
            mode = path.lstat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                kind = "a symbolic link" if stat.S_ISLNK(mode) else "a pipe or a device"
                raise NotFollowed(f"{path} is {kind}, which is not followed: replace it with a regular file or folder")
    return path


def read_those(folder: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Read those of the named files that exist. Raises StorageError or NotFollowed."""
    contents: dict[str, bytes] = {}
    for name in names:
        with storage_errors(folder / name, "read"), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            contents[name] = below(folder, name).read_bytes()
    return contents


def is_readable(path: Path) -> bool:
    """Return whether the path is a file; False if its folder cannot be read."""
    try:
        return path.is_file()
    except OSError:
        return False


def folders_in(root: Path) -> list[Path]:
    """Return the sorted entries of a folder; none if it does not exist. Raises StorageError."""
    with storage_errors(root, "read"):
        return sorted(root.iterdir()) if root.is_dir() else []


def make_folder(folder: Path) -> None:
    """Create a folder and its parents if needed. Raises StorageError."""
    with storage_errors(folder, "make"):
        folder.mkdir(parents=True, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder survive a power cut, where the system supports it."""
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


def _remove_abandoned(path: Path) -> None:
    """Remove temporary files of killed processes of this machine. Writers on other machines may still be alive."""
    if os.name != "posix":
        return
    start = f".{path.name}.{socket.gethostname()}."
    for name in os.listdir(path.parent):
        pid = name.removeprefix(start).removesuffix(SUFFIX)
        if name == f"{start}{pid}{SUFFIX}" and pid.isdecimal() and not _is_alive(int(pid)):
            (path.parent / name).unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # a process of another user
        pass
    return True


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files in a folder that the caller has locked. Raises StorageError."""
    with storage_errors(folder, "clean"):
        for path in folder.glob(f".*{SUFFIX}"):
            path.unlink(missing_ok=True)


def refuse_what_is_there(target: Path) -> None:
    """Raise UserError if the target is an existing file or a non-empty folder."""
    with storage_errors(target, "read"):
        exists = next(target.iterdir(), None) is not None if target.is_dir() else target.exists()
    if exists:
        raise UserError(f"{target} already exists: overwrite it with --force, or choose another --out")


def write_exported(files: Iterable[tuple[Path, bytes]]) -> list[Path]:
    """Write exported files and return their paths. Raises StorageError."""
    paths = []
    for path, content in files:
        make_folder(path.parent)
        write_atomically(path, content)
        paths.append(path)
    return paths


def write_report(out: Path, name: str, content: str) -> Path:
    """Write a file of a claims report and return its path. Raises StorageError."""
    make_folder(out)
    write_atomically(out / name, content)
    return out / name
