"""Bodies that are too large for memory, each in a file of its own; see docs/large-messages.md.

File ``<id as 16 hex digits>``: the body, and a trailer that shows damage. Ids are never used again,
since old records may name them. A file is removed when no ``LargeBody`` of it is alive and no
record refers to it. All but ``LargeBody.sync`` is for the loop.
"""

from __future__ import annotations

import contextlib
import errno
import re
import weakref
from functools import partial
from struct import Struct
from typing import Final
from zlib import crc32

from hareline.errors import AmqpError, ContentTooLarge, StoreError
from hareline.message import BodyReader, LargeBody
from hareline.storage.interface import BodyDraft, BodyStore
from hareline.storage.journal.files import Files
from hareline.storage.journal.syncer import Syncer, Task

#: Pieces of a body are gathered to this much before they are written.
WRITE_BYTES: Final = 262_144

_TRAILER: Final = Struct("<8sQQ")  # magic, id, size
_CHECKSUM: Final = Struct("<I")  # of the body and of what stands before this
TRAILER_SIZE: Final = _TRAILER.size + _CHECKSUM.size
_MAGIC: Final = b"HLBODY\x00\x01"  # the last octet is the version
_NAME: Final = re.compile(r"[0-9a-f]{16}")
_IDS_PER_MS_BITS: Final = 16
_IS_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class LargeBodies(BodyStore):
    """The bodies in ``directory``, which is made if it is missing. Raises StoreError.

    ``now_ms``: wall time, from which ids begin. ``syncer``: removes files, which may take some
    milliseconds for one; without it they are removed at once.
    """

    __slots__ = (
        "_bodies",
        "_directory",
        "_files",
        "_has_all_records",
        "_kept",
        "_leaving",
        "_next_id",
        "_syncer",
    )

    def __init__(
        self, files: Files, directory: str, *, now_ms: int, syncer: Syncer | None = None
    ) -> None:
        self._files = files
        self._directory = directory
        self._syncer = syncer
        self._bodies: weakref.WeakValueDictionary[int, _FileBody] = weakref.WeakValueDictionary()
        self._kept: dict[int, int] = {}  # id to the number of entries that records give it to
        self._leaving: set[int] = set()  # ids whose files are about to be removed
        self._has_all_records = False
        try:
            files.make_directory(directory)
            last_id = max(self._ids(), default=0)
        except OSError as error:
            raise StoreError(f"{directory}: {error.strerror or error}") from error
        self._next_id = max(now_ms << _IDS_PER_MS_BITS, last_id + 1)

    def begin(self, size: int) -> BodyDraft:
        large_id = self._next_id
        self._next_id = large_id + 1
        return _Draft(self, self._files, self.path_of(large_id), large_id, size)

    def body(self, large_id: int, size: int) -> LargeBody:
        """Return the body that a record refers to; reading it raises if it is missing."""
        body = self._bodies.get(large_id)
        return self._made(large_id, size, is_synced=True) if body is None else body

    def problem_of(self, large_id: int, size: int) -> str:
        """Return why a body that a record refers to cannot be used; empty if it looks right.

        Looks at the length and the end of the file, not at all of it.
        """
        path = self.path_of(large_id)
        if large_id in self._leaving:
            return f"{path}: is being removed"
        try:
            fd = self._files.open_to_read(path)
            try:
                length = self._files.size(fd)
                trailer = self._files.read(fd, TRAILER_SIZE, size)
            finally:
                self._files.close(fd)
        except OSError as error:
            return f"{path}: {error.strerror or error}"
        if length != size + TRAILER_SIZE:
            return f"{path}: {length} octets instead of {size + TRAILER_SIZE}"
        if not trailer.startswith(_TRAILER.pack(_MAGIC, large_id, size)):
            return f"{path}: does not end as a body of {size} octets"
        return ""

    # ------------------------------------------------------------------- lifetime

    def keep(self, large_id: int) -> None:
        """Count one more entry whose record refers to this body."""
        self._kept[large_id] = self._kept.get(large_id, 0) + 1
        self._next_id = max(self._next_id, large_id + 1)

    def release(self, large_id: int) -> None:
        """Count one such entry less, whose end is durable."""
        count = self._kept[large_id] - 1
        if count:
            self._kept[large_id] = count
            return
        del self._kept[large_id]
        if large_id not in self._bodies:
            self._remove(large_id)

    def remove_strays(self) -> int:
        """Remove all files without a reference; returns how many. Raises StoreError.

        Call it once, when the entries of all records are known.
        """
        self._has_all_records = True
        count = 0
        try:
            for large_id in self._ids():
                if large_id not in self._kept and large_id not in self._bodies:
                    self._files.unlink(self.path_of(large_id))
                    count += 1
        except OSError as error:
            raise StoreError(f"{self._directory}: {error.strerror or error}") from error
        return count

    def close(self) -> None:
        """Remove files that no record refers to; from now on files are removed at once.

        Removes nothing if the start ended before all records were known.
        """
        self._syncer = None
        if not self._has_all_records:
            return
        with contextlib.suppress(OSError):  # they are removed by the next start then
            for large_id in self._ids():
                if large_id not in self._kept:
                    self._files.unlink(self.path_of(large_id))

    def _ids(self) -> list[int]:
        return [
            int(name, 16) for name in self._files.list(self._directory) if _NAME.fullmatch(name)
        ]

    def path_of(self, large_id: int) -> str:
        return large_path(self._directory, large_id)

    # ----------------------------------------------------------- for drafts and bodies

    def _made(self, large_id: int, size: int, *, is_synced: bool) -> LargeBody:
        path = self.path_of(large_id)
        body = _FileBody(large_id, size, self._files, self._directory, path, is_synced=is_synced)
        self._bodies[large_id] = body
        weakref.finalize(body, self._on_unreferenced, large_id).atexit = False
        return body

    def _on_unreferenced(self, large_id: int) -> None:
        """Remove the file if no record refers to it; its last message has left memory."""
        if large_id not in self._kept:
            self._remove(large_id)

    def _remove(self, large_id: int) -> None:
        removal = Task(partial(self._unlink, large_id), self._leaving.discard)
        if self._syncer is None:
            removal.run()
        else:
            self._leaving.add(large_id)
            self._syncer.submit(removal)

    def _unlink(self, large_id: int) -> int:
        with contextlib.suppress(OSError):  # the next start tries again
            self._files.unlink(self.path_of(large_id))
        return large_id


class _FileBody(LargeBody):
    __slots__ = ("_directory", "_files", "_is_synced", "_path")

    def __init__(
        self,
        large_id: int,
        size: int,
        files: Files,
        directory: str,
        path: str,
        *,
        is_synced: bool,
    ) -> None:
        super().__init__(large_id, size)
        self._files = files
        self._directory = directory
        self._path = path
        self._is_synced = is_synced

    def open(self) -> BodyReader:
        return _Reader(self._files, self._path, self.large_id, self.size)

    def sync(self) -> None:
        if self._is_synced:
            return
        files = self._files
        fd = files.open(self._path, create=False)
        try:
            files.sync(fd)
        finally:
            files.close(fd)
        files.sync_directory(self._directory)
        self._is_synced = True

    def __repr__(self) -> str:
        return f"<LargeBody {self._path!r}, {self.size} octets>"


class _Reader(BodyReader):
    __slots__ = ("_checksum", "_files", "_large_id", "_path", "_position", "_size")

    def __init__(self, files: Files, path: str, large_id: int, size: int) -> None:
        self._files = files
        self._path = path
        self._large_id = large_id
        self._size = size
        self._position = 0
        self._checksum = 0

    def read(self, size: int) -> bytes:
        size = min(size, self._size - self._position)
        is_last = self._position + size == self._size
        wanted = size + TRAILER_SIZE if is_last else size
        try:
            octets = self._read(wanted)
        except OSError as error:
            raise StoreError(f"{self._path}: {error.strerror or error}") from error
        if len(octets) < wanted:
            raise StoreError(f"{self._path}: ends before the body does")
        self._position += size
        if not is_last:
            self._checksum = crc32(octets, self._checksum)
            return octets
        body, trailer = octets[:size], octets[size:]
        if trailer != trailer_of(self._large_id, self._size, crc32(body, self._checksum)):
            raise StoreError(f"{self._path}: the body is not what was written, by its checksum")
        return body

    def _read(self, wanted: int) -> bytes:
        files = self._files
        fd = files.open_to_read(self._path)
        try:
            octets = files.read(fd, wanted, self._position)
            files.will_need(fd, self._position + wanted, wanted)  # while the socket drains
            return octets
        finally:
            files.close(fd)


class _Draft(BodyDraft):
    __slots__ = (
        "_bodies",
        "_checksum",
        "_files",
        "_gathered",
        "_gathered_bytes",
        "_has_file",
        "_large_id",
        "_path",
        "_size",
        "_written_bytes",
    )

    def __init__(
        self, bodies: LargeBodies, files: Files, path: str, large_id: int, size: int
    ) -> None:
        self._bodies = bodies
        self._files = files
        self._path = path
        self._large_id = large_id
        self._size = size
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._written_bytes = 0
        self._checksum = 0
        self._has_file = False

    def add(self, octets: bytes) -> None:
        self._gathered.append(octets)
        self._gathered_bytes += len(octets)
        self._checksum = crc32(octets, self._checksum)
        if self._gathered_bytes >= WRITE_BYTES:
            self._write()

    def finish(self) -> LargeBody:
        received = self._written_bytes + self._gathered_bytes
        assert received == self._size, f"{received} octets of a body of {self._size}"
        self._gathered.append(trailer_of(self._large_id, self._size, self._checksum))
        self._write()
        self._has_file = False  # it is the body's from here
        return self._bodies._made(self._large_id, self._size, is_synced=False)

    def abandon(self) -> None:
        self._gathered = []
        if self._has_file:
            self._has_file = False
            self._bodies._remove(self._large_id)

    def _write(self) -> None:
        try:
            fd = self._files.open(self._path, create=not self._has_file)
            self._has_file = True
            try:
                self._files.write(fd, self._gathered, self._written_bytes)
            finally:
                self._files.close(fd)
        except OSError as error:
            raise self._refusal(error) from error
        self._gathered = []
        self._written_bytes += self._gathered_bytes
        self._gathered_bytes = 0

    def _refusal(self, error: OSError) -> AmqpError:
        reason = error.strerror or str(error)
        if error.errno in _IS_FULL:
            return ContentTooLarge(f"no room for a message of {self._size} octets: {reason}")
        return StoreError(f"message of {self._size} octets cannot be kept: {reason}")


def trailer_of(large_id: int, size: int, checksum: int) -> bytes:
    """Return the trailer of a body in its file; ``checksum``: CRC-32 of the body."""
    fields = _TRAILER.pack(_MAGIC, large_id, size)
    return fields + _CHECKSUM.pack(crc32(fields, checksum))


def large_path(directory: str, large_id: int) -> str:
    """The file of a body."""
    return f"{directory}/{large_id:016x}"
