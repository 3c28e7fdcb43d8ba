"""Who may import whom; every import counts.

An import counts wherever it stands: at the top, inside a function, or under TYPE_CHECKING. A new
top-level module has no rights until it gets a row here.
"""

from __future__ import annotations

import ast
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.support.sources import imports_of, modules_of

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "hareline"

EVERYTHING = ("*",)

# What everything may import: numbers of the protocol, and our version.
LEAVES = ("wire.constants", "__version__")

# Importer (the longest name that fits counts) -> what of ours it may import.
OURS: dict[str, tuple[str, ...]] = {
    "__init__": (),
    "errors": (),
    "choices": (),
    "octets": (),
    "patterns": (),
    "compiled": (),
    "clock": (),
    "turn": (),
    "later": ("turn", "clock", "compiled"),
    "events": (),
    "message": ("message", "wire.encoder", "wire.properties", "wire.property_parts", "wire.table"),
    "message.exported": ("message", "errors", "octets", "wire.properties", "wire.table"),
    "logs": ("events",),
    "settings": ("settings", "choices", "errors", "patterns"),
    "wire": ("wire", "errors", "compiled"),
    "auth": ("auth", "wire.table", "errors", "patterns"),
    "authorities": ("authorities", "auth", "settings", "errors", "events"),
    "counts": ("compiled",),
    "selectors": ("selectors", "message", "errors"),
    "queues": (
        *("queues", "selectors", "errors", "clock", "compiled", "counts", "events", "message"),
        *("storage.interface", "turn"),
    ),
    "queues.declare": ("queues.declare", "selectors", "errors", "wire.table"),
    "broker": (
        *("broker", "queues", "selectors", "errors", "clock", "compiled", "counts", "events"),
        *("later", "message", "patterns", "storage.interface", "turn"),
    ),
    "storage": ("storage", "message", "errors", "events", "clock", "compiled"),
    "storage.journal": ("storage.journal", "errors"),
    "amqp": (
        *("amqp", "wire", "broker", "queues", "selectors", "auth", "turn", "clock", "message"),
        *("errors", "events", "later", "storage.interface", "compiled", "counts"),
    ),
    "statistics": ("statistics", "clock", "counts"),
    "statistics.readings": ("statistics", "amqp", "broker", "queues", "message", "counts"),
    "statistics.unacked": ("statistics", "amqp", "queues"),
    "statistics.blocking": ("statistics", "amqp", "queues"),
    "statistics.sources": ("statistics", "amqp", "broker", "queues", "counts"),
    "net": (
        *("net", "amqp", "auth", "settings", "errors", "events", "logs", "clock", "turn", "octets"),
        *("statistics", "counts"),
    ),
    "administration": (
        *("administration", "amqp", "auth", "broker", "queues", "clock", "errors", "events"),
        *("later", "storage.administration", "octets", "patterns"),
    ),
    "management": (
        *("administration", "management", "broker", "queues", "auth", "settings", "errors"),
        *("events", "logs", "storage.replaying.range", "storage.replaying.source"),
        *("message", "octets", "ranges.messages", "storage.store.pinned"),
        *("wire.property_parts", "wire.stream_chunks", "statistics", "counts", "selectors"),
    ),
    "metrics": ("metrics", "amqp", "broker", "queues", "statistics", "counts", "storage.interface"),
    "management.api": (
        *("management", "amqp", "broker", "queues", "auth", "settings", "errors", "events"),
        *("clock", "wire", "message", "octets", "compiled", "statistics", "administration"),
        *("patterns", "storage.administration", "metrics", "counts", "selectors"),
    ),
    "server.http_side": (
        *("administration", "management", "metrics", "net", "settings", "events", "amqp.context"),
        *("auth.peer", "statistics.facts"),
        *("storage.interface", "storage.disk.opening"),
    ),
    "ranges": (
        *("ranges", "wire.property_parts", "wire.stream_chunks", "errors"),
        *("storage.store.large_bodies", "storage.journal"),
    ),
    "spark": ("spark", "wire", "errors"),
    "server.assemble": (
        *(
            "administration.origins",
            "amqp.context",
            "auth",
            "broker.capacity",
            "events",
            "net.binding",
            "net.listener",
            "net.tls",
            "settings",
        ),
        *("storage.journal.damage", "storage.disk.opening"),
    ),
    "reporting": ("logs", "events"),
    "server.recovery": ("reporting", "events", "storage.recovery.reports"),
    "server.known_queues": ("storage", "administration", "broker", "queues", "errors"),
    "server.restore": ("storage", "broker", "queues", "message", "errors"),
    "server.vhost_factory": (
        *("amqp.context", "server.assemble", "broker", "queues.core.audit_recorder", "events"),
        *("net.timers", "settings", "storage.interface"),
    ),
    "server.broker": EVERYTHING,
    "server.daemon": (
        *(
            "server.broker",
            "server.recovery",
            "reporting",
            "settings",
            "events",
            "errors",
            "compiled",
        ),
        *("net.allocator", "net.collector", "storage.disk.directory"),
    ),
    "cli.root": EVERYTHING,
    "cli": ("cli", "errors", "octets"),
    "cli.deadletter": (
        *("cli", "errors", "octets", "message", "wire.properties", "wire.table"),
        "queues.dead_letters.history",
    ),
    "cli.doctor": ("cli", "errors", "octets", "settings", "compiled"),
    "cli.journal": ("cli", "storage.journal", "settings", "errors"),
    "cli.spark": ("cli", "spark"),
    "testing": EVERYTHING,
    "pytest_plugin": ("testing",),
    "__main__": ("cli",),
}

# Importer -> what it may import of other distributions; who has no row here, nothing.
THEIRS: dict[str, tuple[str, ...]] = {
    "compiled": ("mypy_extensions",),
    "logs": ("structlog",),
    "settings": ("pydantic", "pydantic_core", "annotated_types"),
    "net.websocket": ("h11", "wsproto"),
    "auth.certificates": ("cryptography",),
    "wire": ("pamqp",),
    "auth.argon2id": ("argon2",),
    "auth.signing_keys": ("cryptography", "jwt"),
    "auth.tokens": ("jwt",),
    "authorities.http_client": ("httpx",),
    "authorities.directory": ("ldap3",),
    "patterns": ("regex",),
    "management.listener": ("anyio", "h11", "starlette", "uvicorn"),
    "management": (
        "starlette",
        "uvicorn",
        "pydantic",
        "prometheus_client",
        "regex",
        "orjson",
    ),
    "spark": ("pyspark", "pyarrow"),
    "spark.writing.publisher": ("pika",),
    "server.broker": ("uvloop",),
    "cli": ("click", "rich", "pika"),
    "cli.tls.authority": ("cryptography",),
    "cli.spark": ("click", "pyspark"),
    "pytest_plugin": ("pytest",),
}

MAY_USE_ASYNCIO = (
    *(
        "authorities",
        "net",
        "management",
        "server.http_side",
        "server.recovery",
        "server.broker",
        "server.daemon",
        "testing",
    ),
)

# Bytes in, bytes out: nothing of these in what must run without sockets and threads.
WITHOUT_IO = (
    *("errors", "clock", "turn", "counts", "message", "events", "wire", "auth", "selectors"),
    *("queues", "broker", "amqp"),
)
IO_MODULES = ("socket", "selectors", "select", "ssl", "subprocess", "threading", "multiprocessing")

# On the path of every message. What checks arguments of a declaration is not.
HOT = (
    "message",
    "wire.decoder",
    "wire.encoder",
    "amqp.content",
    "amqp.publishing",
    "amqp.routes",
    "amqp.confirms",
    "amqp.consuming",
    "amqp.delivery_port",
    "amqp.input_gate",
    "amqp.inspection",
    "amqp.output",
    "amqp.settling",
    "amqp.delivery_port",
    "amqp.unacked",
    "queues.*",
    "broker.exchanges.*",
    "storage.interface",
    "storage.store.durable",
    "storage.journal.writer",
)
NOT_HOT = ("queues.declare.*",)
NOT_IN_HOT = ("asyncio", "pydantic", "logging", "structlog")


MODULES = modules_of(PACKAGE)
PACKAGES = {name for name, path in MODULES.items() if path.name == "__init__.py"}


def _is_within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in prefixes)


def _rights(module: str, table: dict[str, tuple[str, ...]]) -> tuple[str, ...] | None:
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        row = table.get(".".join(parts[:length]))
        if row is not None:
            return row
    return None


def _is_hot(module: str) -> bool:
    return any(fnmatch(module, pattern) for pattern in HOT) and not any(
        fnmatch(module, pattern) for pattern in NOT_HOT
    )


def _objection(module: str, imported: str) -> str | None:
    """Why this module may not import that name, or None."""
    ours = _rights(module, OURS)
    assert ours is not None, f"hareline.{module} has no row in OURS"
    top, _, rest = imported.partition(".")
    if _is_hot(module) and top in NOT_IN_HOT:
        return f"{top} on the path of every message"
    if top == "hareline":
        allowed = ours == EVERYTHING or _is_within(rest, (*LEAVES, *ours))
        return None if allowed else "above it or beside it"
    if top == "asyncio":
        return None if _is_within(module, MAY_USE_ASYNCIO) else "asyncio has its place"
    if top in IO_MODULES and _is_within(module, WITHOUT_IO):
        return "this layer does no I/O"
    if imported == "importlib.import_module" and ours != EVERYTHING:
        return "an import that nobody can see"
    if top in sys.stdlib_module_names or top in (_rights(module, THEIRS) or ()):
        return None
    return "not one of its libraries"


def _objections(module: str, source: str, *, is_package: bool = False) -> list[str]:
    lines = []
    for line, imported in imports_of(module, ast.parse(source), is_package=is_package):
        why = _objection(module, imported)
        if why is not None:
            lines.append(f"hareline.{module}:{line} imports {imported}: {why}")
    return lines


@pytest.mark.parametrize("module", sorted(MODULES))
def test_module_imports_only_what_its_layer_may(module: str) -> None:
    source = MODULES[module].read_text(encoding="utf-8")
    objections = _objections(module, source, is_package=module in PACKAGES)
    assert not objections, "\n".join(objections)


def test_the_package_was_found() -> None:
    assert {"cli", "server.broker", "wire.decoder", "amqp.connection", "broker.vhost"} <= set(
        MODULES
    )


def test_every_hot_module_exists() -> None:
    for pattern in HOT:
        assert any(fnmatch(module, pattern) for module in MODULES), pattern
    assert sum(map(_is_hot, MODULES)) >= 15


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("errors", "import hareline.clock"),
        ("errors", "import pydantic"),
        ("message", "from hareline.wire.methods import Method"),
        ("wire.decoder", "from hareline.amqp.channel import Channel"),
        ("wire.decoder", "from hareline import message"),
        ("wire.decoder", "import hareline.server.broker"),
        ("wire.decoder", "from ..amqp import channel"),
        ("wire.decoder", "def f():\n    from hareline.broker.vhost import VirtualHost"),
        ("wire.decoder", "if TYPE_CHECKING:\n    from hareline.broker import vhost"),
        ("wire.decoder", "import importlib\nimportlib.import_module('hareline.server.broker')"),
        ("wire.methods", "import socket"),
        ("wire.methods", "import pydantic.fields"),
        ("broker.vhost", "from hareline.wire.table import Table"),
        ("broker.vhost", "from hareline.storage.store.durable import DurableStore"),
        ("broker.vhost", "from hareline.amqp.channel import Channel"),
        ("broker.vhost", "import asyncio"),
        ("broker.vhost", "from threading import Lock"),
        ("broker.vhost", "import pydantic"),
        ("queues.queue", "import logging"),
        ("queues.queue", "import structlog"),
        ("amqp.channel", "import asyncio.transports"),
        ("amqp.channel", "from hareline.net.shell import ConnectionShell"),
        ("amqp.channel", "from hareline.settings import Settings"),
        ("amqp.channel", "from hareline.logs import get_logger"),
        ("amqp.publishing", "import logging"),
        ("net.shell", "from hareline.broker.vhost import VirtualHost"),
        ("net.shell", "import starlette"),
        ("management.pace", "from hareline.amqp.connection import Connection"),
        ("storage.journal.writer", "from hareline.message import Message"),
        ("storage.store.durable", "from hareline.broker.vhost import VirtualHost"),
        ("spark.source", "from hareline.message import Message"),
        ("settings.options", "from hareline.auth.passwords import hash_password"),
        ("settings.options", "import asyncio"),
        ("logs", "from hareline.settings import Settings"),
        ("server.assemble", "from hareline.server.broker import Broker"),
        ("server.assemble", "import asyncio"),
        ("server.daemon", "from hareline.broker.vhost import VirtualHost"),
    ],
)
def test_an_import_across_the_layers_is_noticed(module: str, source: str) -> None:
    assert len(_objections(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("amqp.channel", "from hareline.wire import methods, table"),
        ("amqp.channel", "from . import connection"),
        ("amqp.channel", "from ..errors import NotFound"),
        ("broker.vhost", "from hareline.storage.interface import MessageStore"),
        ("message", "from hareline.wire import properties"),
        ("management.api.app", "from hareline import __version__"),
        ("server.restore", "from hareline.broker.vhost import VirtualHost"),
        ("net.shell", "import asyncio"),
        ("server.broker", "from hareline.net.listener import Listener"),
        ("errors", "import enum, typing"),
    ],
)
def test_an_import_down_the_layers_is_allowed(module: str, source: str) -> None:
    assert _objections(module, source) == []


def test_a_package_s_own_relative_imports_are_resolved() -> None:
    imported = list(imports_of("settings", ast.parse("from .options import x"), is_package=True))
    assert imported == [(1, "hareline.settings.options.x")]


def test_a_module_without_a_row_is_noticed() -> None:
    with pytest.raises(AssertionError, match="no row"):
        _objections("newcomer", "import os")
