"""File layer of the store: each call is one or a few calls of the operating system.

All of the storage reaches files by this class, so that tests can replace it by one that forgets
what was never synced. After a failed ``sync`` it is unknown what is on disk (Linux drops the pages
and says "clean"), so callers must take it as final.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from typing import Final

_PARTS_MAX: Final = min(os.sysconf("SC_IOV_MAX") if hasattr(os, "sysconf") else 16, 1024)
_FILE_MODE: Final = 0o640
_DIRECTORY_MODE: Final = 0o750
# File systems without preallocation say one of these; a sparse file has to do then.
_CANNOT_ALLOCATE: Final = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
# What flock says of a directory where the file system locks files only, or nothing at all.
_CANNOT_LOCK: Final = frozenset(
    {errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
)


class Files:
    """The real one. Paths are str, offsets and sizes are octets."""

    __slots__ = ()

    def open(self, path: str, *, create: bool) -> int:
        """Open for reading and writing; with ``create`` the file must not exist yet."""
        flags = os.O_RDWR | os.O_CLOEXEC
        if create:
            flags |= os.O_CREAT | os.O_EXCL
        return os.open(path, flags, _FILE_MODE)

    def open_to_read(self, path: str) -> int:
        """Open for reading only, which needs no right to write."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def allocate(self, fd: int, size: int) -> None:
        """Make the file at least this long, with blocks for all of it where that can be had."""
        allocate = getattr(os, "posix_fallocate", None)
        if allocate is not None:
            try:
                allocate(fd, 0, size)
            except OSError as error:
                if error.errno not in _CANNOT_ALLOCATE:
                    raise
            else:
                return
        if self.size(fd) < size:
            os.ftruncate(fd, size)

    def write(self, fd: int, parts: Sequence[bytes], offset: int) -> None:
        """Write all parts, one after the other; a short write is continued."""
        for start in range(0, len(parts), _PARTS_MAX):
            chunk = parts[start : start + _PARTS_MAX]
            wanted = sum(map(len, chunk))
            written = os.pwritev(fd, chunk, offset)
            offset += written
            if written < wanted:
                offset = self._write_rest(fd, b"".join(chunk)[written:], offset)

    def _write_rest(self, fd: int, octets: bytes, offset: int) -> int:
        rest = memoryview(octets)
        while rest:
            written = os.pwrite(fd, rest, offset)
            if written == 0:
                raise OSError(errno.EIO, "nothing was written")
            offset += written
            rest = rest[written:]
        return offset

    def sync(self, fd: int) -> None:
        """Make durable what was written, and the size."""
        getattr(os, "fdatasync", os.fsync)(fd)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """Return ``size`` octets, fewer only at the end of the file."""
        octets = os.pread(fd, size, offset)
        if len(octets) == size or not octets:
            return octets
        parts = [octets]
        got = len(octets)
        while got < size:
            octets = os.pread(fd, size - got, offset + got)
            if not octets:
                break
            parts.append(octets)
            got += len(octets)
        return b"".join(parts)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def close(self, fd: int) -> None:
        os.close(fd)

    def rename(self, old: str, new: str) -> None:
        """Rename a file; one that had the new name is gone."""
        os.rename(old, new)  # noqa: PTH104 - paths are str here

    def unlink(self, path: str) -> None:
        os.unlink(path)  # noqa: PTH108

    def list(self, directory: str) -> list[str]:
        """Return the names in it, without the directory, sorted."""
        return sorted(os.listdir(directory))  # noqa: PTH208

    def make_directory(self, path: str) -> None:
        """Make it, and those above it; no effect if it exists."""
        os.makedirs(path, _DIRECTORY_MODE, exist_ok=True)  # noqa: PTH103

    def sync_directory(self, path: str) -> None:
        """Make durable what was made, renamed or unlinked in it."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def will_need(self, fd: int, offset: int, size: int) -> None:
        """Hint to the system that this will be read soon."""
        advise = getattr(os, "posix_fadvise", None)
        if advise is not None:
            advise(fd, offset, size, os.POSIX_FADV_WILLNEED)


def lock_directory(path: str | os.PathLike[str], operation: int) -> int:
    """Lock a directory until the returned file descriptor is closed.

    ``operation``: LOCK_EX or LOCK_SH. Where the file system has no locks for directories (NFS),
    nothing is locked. Raises BlockingIOError while another process has it, and OSError.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise
    except OSError as error:
        if error.errno not in _CANNOT_LOCK:
            os.close(fd)
            raise
    return fd
