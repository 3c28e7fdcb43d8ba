"""Files and folders wherever Spark can write: this machine, HDFS, S3 and their like.

Called by the pipelines for what is not a table: whether an archive is there, pages and JSON.
Invariant: a place without a scheme (``s3a://``) is a path of this machine, as it is for Spark with
no default file system configured.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")


def joined(place: str, name: str) -> str:
    """The place of this name below another one."""
    return f"{place.rstrip('/')}/{name}"


def exists(session: SparkSession, place: str) -> bool:
    """Whether there is a file or a folder."""
    file_system, path = _hadoop(session, place)
    return bool(file_system.exists(path))


def names_in(session: SparkSession, place: str) -> list[str]:
    """The names of what is directly in a folder; none if it does not exist."""
    file_system, path = _hadoop(session, place)
    if not file_system.exists(path):
        return []
    return sorted(each.getPath().getName() for each in file_system.listStatus(path))


def remove(session: SparkSession, place: str) -> None:
    """Remove a file, or a folder with all that is in it."""
    file_system, path = _hadoop(session, place)
    file_system.delete(path, True)


def write_text(session: SparkSession, place: str, text: str) -> None:
    """Write a file, and the folders above it; a previous one is replaced."""
    if not _SCHEME.match(place):
        # By Python, since Hadoop leaves a file with checksums beside each local one.
        file = Path(place)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return
    file_system, path = _hadoop(session, place)
    stream = file_system.create(path, True)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def _hadoop(session: SparkSession, place: str) -> tuple[Any, Any]:
    """Hadoop's file system of a place, and the place as its path."""
    java: Any = session.sparkContext
    path = java._jvm.org.apache.hadoop.fs.Path(place)
    return path.getFileSystem(java._jsc.hadoopConfiguration()), path
