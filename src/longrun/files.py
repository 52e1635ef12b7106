"""Files that survive crashes, and folders that one process writes at a time.

A file is written under a temporary name and then renamed, so that a crash leaves the old one whole.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from longrun.errors import FolderError


@contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Lock a folder for writing; the lock is released when the block or the process ends.

    Raises FolderError if another process holds the lock. What the block raises passes unchanged.
    """
    folder = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderError(f"'{path}' is being written by another process") from None
        yield
    finally:
        os.close(folder)


def write_bytes(path: Path, content: bytes) -> None:
    """Replace the file in one step; its folder is created if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Replace the file by this content as JSON, which has no NaN and no infinities."""
    write_bytes(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises FolderError if it is missing or damaged."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise FolderError(f"'{path}' does not exist") from None
    except (OSError, ValueError) as error:
        raise FolderError(f"'{path}' is damaged or not readable: {error}") from None
