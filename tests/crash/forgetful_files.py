"""A disk in memory that forgets, at a crash, whatever was never synced.

``ForgetfulFiles`` stands in for ``hareline.storage.journal.files.Files``. What it promises is the
least that POSIX does:

- octets that were written are on the disk after ``sync`` of that file, not before;
- so is the size of a file;
- a name that was made, renamed or unlinked is so on the disk after ``sync_directory``, not before;
- after a ``sync`` that failed, what was to be synced never gets there, though later ones succeed.

``crash`` takes the power away and gives it back; with a ``random.Random`` it keeps some of what was
never promised: any of the written pages, and the first so many changes of each directory. To crash
at a certain moment, set ``crash_after``: ``PowerLoss`` is raised when so many operations are done,
and by everything that is tried afterwards, until ``crash`` is called.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hareline.storage.journal.files import Files

PAGE_BYTES: Final = 4096


class PowerLoss(BaseException):
    """Nothing may catch this by accident, so it is no Exception."""


class Operation(NamedTuple):
    """One call that changes something. ``path``: the file or directory, or the old name."""

    name: str
    path: str
    offset: int = 0
    size: int = 0


@dataclass(slots=True, eq=False)
class _Node:
    """A file, whatever it is called. ``dirty``: pages written since the last sync."""

    path: str
    octets: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    dirty: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Directory:
    names: dict[str, _Node] = field(default_factory=dict)
    durable: dict[str, _Node] = field(default_factory=dict)
    changes: list[tuple[tuple[str, _Node | None], ...]] = field(default_factory=list)

    def change(self, *names: tuple[str, _Node | None]) -> None:
        """All of it at once: a rename is never half on the disk."""
        self.changes.append(names)
        _apply(self.names, names)


class ForgetfulFiles(Files):
    """See above. ``operations``: what was done since the start or the last ``crash``.

    ``limit_bytes``: how much the disk holds; ``allocate`` and ``write`` beyond it are ENOSPC.
    ``noted_segment``: what the definitions on this disk say, which are durable at once.
    """

    __slots__ = (
        "_directories",
        "_failures",
        "_is_off",
        "_next_fd",
        "_open",
        "_predicates",
        "crash_after",
        "limit_bytes",
        "noted_segment",
        "operations",
    )

    def __init__(self, *, limit_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.crash_after: int | None = None
        self.noted_segment = 0
        self.operations: list[Operation] = []
        self._directories: dict[str, _Directory] = {"/": _Directory()}
        self._open: dict[int, _Node] = {}
        self._next_fd = 1000  # unlike any that the system gives, so that a mix-up is noticed
        self._failures: list[tuple[str, int]] = []
        self._predicates: list[Callable[[Operation], int | None]] = []
        self._is_off = False

    # What tests do with it.

    def fail_next(self, name: str, error_number: int) -> None:
        """The next operation of this name raises OSError with this errno."""
        self._failures.append((name, error_number))

    def fail_when(self, predicate: Callable[[Operation], int | None]) -> None:
        """Each operation for which the predicate gives an errno raises it."""
        self._predicates.append(predicate)

    def heal(self) -> None:
        """No more of what ``fail_next`` and ``fail_when`` said."""
        self._failures.clear()
        self._predicates.clear()

    def crash(self, keep: random.Random | None = None) -> None:
        """The power goes and comes back: open files are gone, and so is what was not synced."""
        for directory in self._directories.values():
            kept = keep.randint(0, len(directory.changes)) if keep is not None else 0
            for change in directory.changes[:kept]:
                _apply(directory.durable, change)
            directory.changes.clear()
            directory.names = dict(directory.durable)
            for node in directory.names.values():
                _forget(node, keep)
        self._open.clear()
        self.operations = []
        self.crash_after = None
        self._is_off = False

    def content(self, path: str) -> bytes:
        """What a reader would see now."""
        return bytes(self._node(path).octets)

    def durable_content(self, path: str) -> bytes:
        """What would be there after a crash that forgets all it may. Raises FileNotFoundError."""
        directory, name = self._place(path)
        if name not in directory.durable:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return bytes(directory.durable[name].durable)

    def put(self, path: str, octets: bytes) -> None:
        """A file with this content, durable: how a test damages one, or begins with one."""
        directory, name = self._place(path)
        node = directory.names.get(name) or _Node(path)
        node.octets, node.durable = bytearray(octets), bytearray(octets)
        node.dirty.clear()
        directory.names[name] = directory.durable[name] = node

    @property
    def used_bytes(self) -> int:
        nodes = {
            id(node): node
            for directory in self._directories.values()
            for node in directory.names.values()
        }
        return sum(len(node.octets) for node in nodes.values())

    @property
    def open_files(self) -> int:
        return len(self._open)

    # The file layer.

    def open(self, path: str, *, create: bool) -> int:
        directory, name = self._place(path)
        if create:
            if name in directory.names:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            with_name = _Node(path)
            self._do(Operation("open", path), lambda: directory.change((name, with_name)))
        return self._descriptor(self._node(path))

    def open_to_read(self, path: str) -> int:
        self._check_power()
        return self._descriptor(self._node(path))

    def allocate(self, fd: int, size: int) -> None:
        node = self._of(fd)
        grows = max(0, size - len(node.octets))
        self._do(
            Operation("allocate", node.path, 0, size),
            lambda: node.octets.extend(bytes(grows)),
            grows,
        )

    def write(self, fd: int, parts: Sequence[bytes], offset: int) -> None:
        node = self._of(fd)
        octets = b"".join(parts)
        end = offset + len(octets)

        def write() -> None:
            if len(node.octets) < offset:
                node.octets.extend(bytes(offset - len(node.octets)))
            node.octets[offset:end] = octets
            node.dirty.update(range(offset // PAGE_BYTES, -(-end // PAGE_BYTES)))

        grows = max(0, end - len(node.octets))
        self._do(Operation("write", node.path, offset, len(octets)), write, grows)

    def sync(self, fd: int) -> None:
        node = self._of(fd)
        try:
            self._do(Operation("sync", node.path), lambda: _make_durable(node))
        except OSError:
            node.dirty.clear()  # these pages count as clean now, and are on no disk
            raise

    def read(self, fd: int, size: int, offset: int) -> bytes:
        self._check_power()
        node = self._of(fd)
        self._check_failures(Operation("read", node.path, offset, size))
        return bytes(memoryview(node.octets)[offset : offset + size])

    def size(self, fd: int) -> int:
        self._check_power()
        return len(self._of(fd).octets)

    def truncate(self, fd: int, size: int) -> None:
        node = self._of(fd)

        def truncate() -> None:
            del node.octets[size:]
            node.octets.extend(bytes(size - len(node.octets)))
            node.dirty = {page for page in node.dirty if page * PAGE_BYTES < size}
            if size % PAGE_BYTES:
                node.dirty.add(size // PAGE_BYTES)

        self._do(Operation("truncate", node.path, 0, size), truncate)

    def close(self, fd: int) -> None:
        self._of(fd)
        del self._open[fd]

    def rename(self, old: str, new: str) -> None:
        node = self._node(old)
        source, old_name = self._place(old)
        target, new_name = self._place(new)

        def rename() -> None:
            node.path = new
            if source is target:
                source.change((old_name, None), (new_name, node))
            else:
                target.change((new_name, node))
                source.change((old_name, None))

        self._do(Operation("rename", old), rename)

    def unlink(self, path: str) -> None:
        self._node(path)
        directory, name = self._place(path)
        self._do(Operation("unlink", path), lambda: directory.change((name, None)))

    def list(self, directory: str) -> list[str]:
        self._check_power()
        inner = f"{directory.rstrip('/')}/"
        folders = {path.removeprefix(inner) for path in self._directories if path.startswith(inner)}
        names = {path for path in folders if path and "/" not in path}
        return sorted(names | set(self._directory(directory).names))

    def make_directory(self, path: str) -> None:
        """Directories are durable at once: the broker makes them before there is anything in."""
        place = path.rstrip("/")
        if place in self._directories:
            return
        places = ["/".join(place.split("/")[:count]) for count in range(2, place.count("/") + 2)]

        def make() -> None:
            for each in places:
                self._directories.setdefault(each, _Directory())

        self._do(Operation("make_directory", path), make)

    def sync_directory(self, path: str) -> None:
        directory = self._directory(path)

        def sync() -> None:
            directory.durable = dict(directory.names)
            directory.changes.clear()

        self._do(Operation("sync_directory", path), sync)

    def will_need(self, fd: int, offset: int, size: int) -> None:
        self._of(fd)

    # How it does that.

    def _do(self, operation: Operation, change: Callable[[], object], grows: int = 0) -> None:
        self._check_power()
        self._check_failures(operation)
        if self.limit_bytes is not None and grows and self.used_bytes + grows > self.limit_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), operation.path)
        change()
        self.operations.append(operation)
        if self.crash_after is not None and len(self.operations) >= self.crash_after:
            self._is_off = True
            raise PowerLoss(operation)

    def _check_power(self) -> None:
        if self._is_off:
            raise PowerLoss("the power is off")

    def _check_failures(self, operation: Operation) -> None:
        number = next((each(operation) for each in self._predicates if each(operation)), None)
        for index, (name, error_number) in enumerate(self._failures):
            if name == operation.name:
                del self._failures[index]
                number = error_number
                break
        if number is not None:
            raise OSError(number, os.strerror(number), operation.path)

    def _descriptor(self, node: _Node) -> int:
        self._next_fd += 1
        self._open[self._next_fd] = node
        return self._next_fd

    def _of(self, fd: int) -> _Node:
        if fd not in self._open:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._open[fd]

    def _place(self, path: str) -> tuple[_Directory, str]:
        directory, _, name = path.rpartition("/")
        return self._directory(directory or "/"), name

    def _directory(self, path: str) -> _Directory:
        found = self._directories.get(path.rstrip("/") or "/")
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return found

    def _node(self, path: str) -> _Node:
        directory, name = self._place(path)
        if name not in directory.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return directory.names[name]


def _apply(names: dict[str, _Node], changes: tuple[tuple[str, _Node | None], ...]) -> None:
    for name, node in changes:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _make_durable(node: _Node) -> None:
    """The dirty pages and the size; a page whose sync failed is no longer among the dirty ones."""
    size = len(node.octets)
    del node.durable[size:]
    node.durable.extend(bytes(size - len(node.durable)))
    for page in node.dirty:
        place = slice(page * PAGE_BYTES, (page + 1) * PAGE_BYTES)
        node.durable[place] = node.octets[place]
    node.dirty.clear()


def _forget(node: _Node, keep: random.Random | None) -> None:
    if keep is not None:
        if keep.random() < 0.5:
            node.durable.extend(bytes(max(0, len(node.octets) - len(node.durable))))
        for page in sorted(node.dirty):
            start = page * PAGE_BYTES
            if keep.random() < 0.5 and start < len(node.durable):
                end = min(start + PAGE_BYTES, len(node.durable))
                node.durable[start:end] = node.octets[start:end].ljust(end - start, b"\0")
    node.octets = bytearray(node.durable)
    node.dirty.clear()
