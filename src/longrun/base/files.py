"""Files that survive crashes, and folders that one process writes at a time.

A file is written under a temporary name and then renamed, so that a crash leaves the old one whole.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from longrun.base.errors import FolderError

LEFTOVER = re.compile(r"\.(\w+\.json|\w+\.csv)\.\d+")
"""Names of temporary files of `write_bytes`, each with the number of its process."""
MOST_BYTES = 2**30
"""Size of a file that is read, if its reader gives no other limit; metrics.csv may be large."""


class FolderLock(AbstractContextManager["FolderLock"]):
    """The right to write a folder, which one holder has at a time.

    It ends with `release`, with its `with` block, or with the process, whatever ends that. Raises
    FolderError if another holder has it and does not release it within `wait` seconds, or if
    `pause`, which is given the time between two attempts, says not to wait any longer.
    """

    def __init__(
        self, path: Path, wait: float = 0.0, pause: Callable[[float], object] = time.sleep
    ) -> None:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self._release = weakref.finalize(self, os.close, folder)
        deadline = time.monotonic() + wait
        while True:
            with suppress(BlockingIOError):
                return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.monotonic() >= deadline or pause(0.05):
                self.release()
                raise FolderError(f"'{path}' is being written by another process")

    def release(self) -> None:
        """Let others write the folder; a second call has no effect."""
        self._release()

    def __exit__(self, *_: object) -> None:
        self.release()


def make_folder(path: Path) -> None:
    """Create a folder and those above it. Raises FolderError if that is not possible."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        files = [p for p in (path, *path.parents) if p.exists() and not p.is_dir()]
        what = f"'{next(iter(files), path)}' is a file and a folder is needed"
        raise FolderError(f"{what}; choose another folder") from None
    except OSError as error:  # no rights, or a file system that has no new folders
        why = error.strerror or error
        raise FolderError(
            f"folder '{path}' cannot be created: {why}; choose another folder"
        ) from None


def write_bytes(path: Path, content: bytes) -> None:
    """Replace the file in one step; its folder is created if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with named_errors(path), aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Errors of writing, such as a full disk, name the file."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise type(error)(error.errno, error.strerror, str(path)) from None
        raise


def remove_leftovers(folder: Path) -> None:
    """Delete temporary files that killed processes left; only for the holder of the lock."""
    for file in folder.glob(".*.*"):
        if LEFTOVER.fullmatch(file.name):
            file.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Replace the file by this content as JSON, which has no NaN and no infinities."""
    write_bytes(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def as_read(content: Any) -> Any:
    """The content as JSON reads it: tuples become lists."""
    return json.loads(json.dumps(content))


def open_regular(path: Path, most: int = MOST_BYTES) -> BinaryIO:
    """A regular file of at most so many bytes, open for reading. Raises FolderError otherwise.

    Links, devices and pipes are refused: files that come from others may name anything, and some of
    these never end.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise FolderError(f"'{path}' does not exist") from None
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror
        raise FolderError(f"'{path}' cannot be read: {why}") from None
    about = os.fstat(file)
    if not stat.S_ISREG(about.st_mode) or about.st_size > most:
        os.close(file)
        if stat.S_ISREG(about.st_mode):
            raise FolderError(f"'{path}' has {about.st_size:,} bytes, more than {most:,}")
        raise FolderError(f"'{path}' cannot be read: it is not a regular file")
    return open(file, "rb")


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a file that `open_regular` opens."""
    with open_regular(path, most) as file:
        return file.read()


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises FolderError if it is missing or damaged."""
    content = read_bytes(path)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FolderError(f"'{path}' is damaged or not readable: {error}") from None
