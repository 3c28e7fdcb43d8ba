"""Methods of the control plane: the payload of a method frame <-> an object with its arguments.

pamqp's command classes are the method table: handlers are typed by them
(``def declare(self, method: commands.Queue.Declare)``) and take them from here, so that
nothing above ``wire`` imports pamqp. Its constructors and encoders are not used: they refuse valid
names and change the width of integers. The specification in the classes is compiled into a plan per
class when this module is imported, and ``wire.table`` encodes and decodes the values of the plan.
``amqp`` calls ``decode_method``; modules that reply call
``encode_method``.

Values: ``shortstr`` and ``longstr`` are str (a longstr that is not UTF-8 holds surrogates,
``table.text_octets`` gives its octets back), ``table`` is a ``Table``, ``bit`` a bool, the rest
int. As in RabbitMQ a shortstr must be UTF-8, except in the methods that carry content.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from pamqp import commands
from pamqp.base import Frame

from hareline.errors import CommandInvalid, FrameError, MalformedFrame
from hareline.wire.constants import FRAME_END_OCTET, FRAME_METHOD
from hareline.wire.decoder import frame_error
from hareline.wire.table import decode_table, encode_shortstr, encode_table

__all__ = [
    "Access",
    "Exchange",
    "Frame",
    "commands",
    "decode_method",
    "encode_method",
    "method_name",
]


class Access:
    """Class access (30): removed in AMQP 0-9-1, still sent by clients that began with 0-8."""

    class Request(Frame):
        """Ask for a ticket; the answer is always ticket 1, which clients ignore."""

        # slots are in wire order, as in every pamqp class
        __slots__: ClassVar[list[str]] = [  # noqa: RUF023
            "realm",
            "exclusive",
            "passive",
            "active",
            "write",
            "read",
        ]
        frame_id: ClassVar[int] = 10
        index: ClassVar[int] = 0x001E000A
        name: ClassVar[str] = "Access.Request"
        synchronous: ClassVar[bool] = True
        valid_responses: ClassVar[list[str]] = ["Access.RequestOk"]

        _realm = "shortstr"
        _exclusive = "bit"
        _passive = "bit"
        _active = "bit"
        _write = "bit"
        _read = "bit"

        def __init__(
            self,
            realm: str = "/data",
            exclusive: bool = False,
            passive: bool = True,
            active: bool = True,
            write: bool = True,
            read: bool = True,
        ) -> None:
            self.realm = realm
            self.exclusive = exclusive
            self.passive = passive
            self.active = active
            self.write = write
            self.read = read

    class RequestOk(Frame):
        """The ticket."""

        __slots__: ClassVar[list[str]] = ["ticket"]
        frame_id: ClassVar[int] = 11
        index: ClassVar[int] = 0x001E000B
        name: ClassVar[str] = "Access.RequestOk"

        _ticket = "short"

        def __init__(self, ticket: int = 1) -> None:
            self.ticket = ticket


class Exchange:
    """The methods of class exchange (40) that Qpid has and pamqp does not."""

    class Bound(Frame):
        """Does this exchange exist, and is this queue bound to it (with this routing key)?"""

        __slots__: ClassVar[list[str]] = ["exchange", "routing_key", "queue"]  # noqa: RUF023
        frame_id: ClassVar[int] = 22
        index: ClassVar[int] = 0x00280016
        name: ClassVar[str] = "Exchange.Bound"
        synchronous: ClassVar[bool] = True
        valid_responses: ClassVar[list[str]] = ["Exchange.BoundOk"]

        _exchange = "shortstr"
        _routing_key = "shortstr"
        _queue = "shortstr"

        def __init__(self, exchange: str = "", routing_key: str = "", queue: str = "") -> None:
            self.exchange = exchange
            self.routing_key = routing_key
            self.queue = queue

    class BoundOk(Frame):
        """The answer: 0 means bound; any other code says what is missing."""

        __slots__: ClassVar[list[str]] = ["reply_code", "reply_text"]
        frame_id: ClassVar[int] = 23
        index: ClassVar[int] = 0x00280017
        name: ClassVar[str] = "Exchange.BoundOk"

        _reply_code = "short"
        _reply_text = "shortstr"

        def __init__(self, reply_code: int = 0, reply_text: str = "") -> None:
            self.reply_code = reply_code
            self.reply_text = reply_text


def decode_method(payload: bytes) -> Frame:
    """The method in the payload of a method frame (class id, method id, arguments).

    Raises CommandInvalid ``unimplemented method`` for unknown ids, FrameError ``cannot decode
    queue.declare: ...`` if the arguments are too short, too long or invalid (501, as RabbitMQ).
    Both carry the ids of the method, because no method is being handled yet.
    """
    if len(payload) < 4:
        raise frame_error(FRAME_METHOD, payload, "unknown_frame")
    index = int.from_bytes(payload[:4], "big")
    plan = _PLANS_BY_INDEX.get(index)
    if plan is None:
        raise CommandInvalid("unimplemented method", class_id=index >> 16, method_id=index & 0xFFFF)
    method = plan.method_class.__new__(plan.method_class)
    position = 4
    for names, read, _ in plan.steps:
        try:
            if read is None:  # up to eight bits that share an octet
                bits = payload[position]
                position += 1
                for name in names:
                    setattr(method, name, bool(bits & 1))
                    bits >>= 1
            else:
                value, position = read(payload, position)
                setattr(method, names[0], value)
        except (IndexError, struct.error):
            raise plan.undecodable(f"no octets left for '{names[0]}'") from None
        except UnicodeDecodeError:
            raise plan.undecodable(f"malformed UTF-8 in shortstr '{names[0]}'") from None
        except MalformedFrame as problem:
            raise plan.undecodable(f"'{names[0]}': {problem.explanation}") from None
    if position != len(payload):
        raise plan.undecodable(f"{len(payload) - position} octets too many")
    return method


def encode_method(channel: int, method_class: type[Frame], **fields: object) -> bytes:
    """A whole method frame, head and end octet included.

    An absent field is 0, "", False or an empty table. Raises TypeError for a name that
    the method does not have or a value of the wrong kind, ValueError for one that does not fit.
    """
    plan = _PLANS[method_class]
    if not plan.names.issuperset(fields):
        unknown = ", ".join(sorted(fields.keys() - plan.names))
        raise TypeError(f"{plan.name} has no field {unknown}")
    parts = [plan.index_octets]
    for names, _, write in plan.steps:
        if write is None:
            bits = 0
            for place, name in enumerate(names):
                if fields.get(name):
                    bits |= 1 << place
            parts.append(bits.to_bytes(1, "big"))
        else:
            pack, default = write
            try:
                parts.append(pack(fields.get(names[0], default)))
            except (struct.error, AttributeError, ValueError, TypeError) as problem:
                raise _misfit(problem)(f"{plan.name}: field {names[0]}: {problem}") from problem
    size = sum(map(len, parts))
    return b"".join((_FRAME_HEAD.pack(FRAME_METHOD, channel, size), *parts, FRAME_END_OCTET))


def method_name(index: int) -> str:
    """``queue.declare-ok`` for ``class id << 16 | method id``; ``60.999`` for an unknown one."""
    plan = _PLANS_BY_INDEX.get(index)
    return plan.name if plan is not None else f"{index >> 16}.{index & 0xFFFF}"


# -------------------------------------------------------------------------------- value codec

Read = Callable[[bytes, int], tuple[object, int]]
Write = tuple[Callable[[Any], bytes], object]  # how, and what to write for a field not given


def _read_shortstr(payload: bytes, position: int) -> tuple[object, int]:
    start = position + 1
    end = start + payload[position]
    if end > len(payload):
        raise IndexError
    return str(payload[start:end], "utf-8"), end


def _read_lenient_shortstr(payload: bytes, position: int) -> tuple[object, int]:
    start = position + 1
    end = start + payload[position]
    if end > len(payload):
        raise IndexError
    return str(payload[start:end], "utf-8", "surrogateescape"), end


def _read_longstr(payload: bytes, position: int) -> tuple[object, int]:
    start = position + 4
    end = start + _LONG.unpack_from(payload, position)[0]
    if end > len(payload):
        raise IndexError
    return str(payload[start:end], "utf-8", "surrogateescape"), end


def _write_longstr(value: str | bytes) -> bytes:
    octets = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    return _LONG.pack(len(octets)) + octets


def _read_number(layout: struct.Struct) -> Read:
    unpack_from = layout.unpack_from
    size = layout.size
    return lambda payload, position: (unpack_from(payload, position)[0], position + size)


_OCTET: Final = struct.Struct(">B")
_SHORT: Final = struct.Struct(">H")
_LONG: Final = struct.Struct(">I")
_LONGLONG: Final = struct.Struct(">Q")
_FRAME_HEAD: Final = struct.Struct(">BHI")

_READERS: Final[Mapping[str, Read]] = {
    "octet": _read_number(_OCTET),
    "short": _read_number(_SHORT),
    "long": _read_number(_LONG),
    "longlong": _read_number(_LONGLONG),
    "shortstr": _read_shortstr,
    "longstr": _read_longstr,
    "table": decode_table,
}
_WRITERS: Final[Mapping[str, Write]] = {
    "octet": (_OCTET.pack, 0),
    "short": (_SHORT.pack, 0),
    "long": (_LONG.pack, 0),
    "longlong": (_LONGLONG.pack, 0),
    "shortstr": (encode_shortstr, ""),
    "longstr": (_write_longstr, ""),
    "table": (encode_table, {}),
}


def _misfit(problem: Exception) -> type[Exception]:
    return ValueError if isinstance(problem, struct.error | ValueError) else TypeError


# -------------------------------------------------------------------------------------- plans


class _Plan:
    """The layout of the arguments of one method class on the wire.

    ``steps`` are ``(names, read, write)`` in wire order; bits that share an octet are one step,
    first bit lowest (AMQP 0-9-1 section 4.2.5.2), whose ``read`` and ``write`` are None.
    """

    __slots__ = ("index_octets", "method_class", "name", "names", "steps")

    def __init__(self, method_class: type[Frame]) -> None:
        class_name, short_name = method_class.name.split(".")
        self.name = f"{class_name.lower()}.{_hyphenate(short_name)}"
        self.method_class = method_class
        self.names = frozenset(method_class.__slots__)
        self.index_octets = _LONG.pack(method_class.index)
        self.steps = _steps_of(method_class)

    def undecodable(self, reason: str) -> FrameError:
        index = self.method_class.index
        return FrameError(
            f"cannot decode {self.name}: {reason}", class_id=index >> 16, method_id=index & 0xFFFF
        )


_Steps = tuple[tuple[tuple[str, ...], Read | None, Write | None], ...]


def _steps_of(method_class: type[Frame]) -> _Steps:
    steps: list[tuple[tuple[str, ...], Read | None, Write | None]] = []
    bits: list[str] = []
    for name in method_class.__slots__:
        domain = method_class.amqp_type(name)
        if bits and (domain != "bit" or len(bits) == 8):
            steps.append((tuple(bits), None, None))
            bits = []
        if domain == "bit":
            bits.append(name)
            continue
        read = _READERS[domain]
        if domain == "shortstr" and method_class in _CONTENT_METHODS:
            read = _read_lenient_shortstr
        steps.append(((name,), read, _WRITERS[domain]))
    if bits:
        steps.append((tuple(bits), None, None))
    return tuple(steps)


def _hyphenate(short_name: str) -> str:
    """``RecoverAsync`` -> ``recover-async``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", short_name).lower()


_CONTENT_METHODS: Final = frozenset(
    (commands.Basic.Publish, commands.Basic.Return, commands.Basic.Deliver, commands.Basic.GetOk)
)
_ADDED_METHODS: Final[tuple[type[Frame], ...]] = (
    Access.Request,
    Access.RequestOk,
    Exchange.Bound,
    Exchange.BoundOk,
)
_PLANS: Final[Mapping[type[Frame], _Plan]] = {
    method_class: _Plan(method_class)
    for method_class in (*commands.INDEX_MAPPING.values(), *_ADDED_METHODS)
}
# In 0-9, whose header is taken for that of 0-9-1, basic.recover has this id (qpid-jms-amqp-0-x,
# ``BasicRecoverSyncBody``); that client knows the recover-ok of 0-9-1.
_RECOVER_OF_0_9: Final = 0x003C0066
_PLANS_BY_INDEX: Final[Mapping[int, _Plan]] = {
    _RECOVER_OF_0_9: _PLANS[commands.Basic.Recover],
    **{plan.method_class.index: plan for plan in _PLANS.values()},
}
