"""Definitions from files, for ``load_definitions``: a file, or all ``.json`` files of a directory.

Called by ``server`` at the start, before clients can connect.

Invariant: a file that cannot be read, or is not JSON, is an error that names it.
"""

from __future__ import annotations

import json
from pathlib import Path

from hareline.errors import StoreError


def definition_files(given: str) -> list[Path]:
    """The files to load, in the order of their names; none if ``given`` is empty.

    Raises StoreError for a directory without any.
    """
    if not given:
        return []
    path = Path(given).expanduser()
    if not path.is_dir():
        return [path]
    files = sorted(each for each in path.glob("*.json") if each.is_file())
    if not files:
        raise StoreError(f"{path}: no .json files in this directory (load_definitions)")
    return files


def read_definitions(path: Path) -> object:
    """The JSON of a file. Raises StoreError."""
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error} (load_definitions)") from None
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path}: not JSON: {error} (load_definitions)") from None
