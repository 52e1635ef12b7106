"""Writing files so that a crash leaves the old one whole: to the side first, then renamed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from longrun.errors import FolderError


def write_bytes(path: Path, content: bytes) -> None:
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
    write_bytes(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """The content, or a ValueError in one line."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise FolderError(f"'{path}' does not exist") from None
    except (OSError, ValueError) as error:
        raise FolderError(f"'{path}' is damaged or not readable: {error}") from None
