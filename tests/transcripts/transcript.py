r"""What the transcript files say: their grammar, and the steps they are read as.

A transcript is a conversation, one line for each thing said. ``C:`` is the client and ``S:`` the
broker; ``C2:``/``S2:`` are a second connection, and so on. ``C:`` lines in a row arrive in one
read; an ``S:`` line ends the turn and names the next thing the broker sent. Whatever the broker
said must be named before the client goes on, so nothing can be overlooked. A line that begins with
``#`` is a comment.

::

    C: open [user=U] [password=P] [vhost=V] [frame_max=N] [channel_max=N] [heartbeat=N]
            [channels=[1 2]] [capabilities={...}]                     the whole handshake
    C: 1 queue.declare queue=q durable=true                           a method on channel 1
    C: 1 basic.publish routing_key=q body="x" properties={...}        a publish with its content
    C: 1 method basic.publish routing_key=q                           the method frame alone
    C: 1 header size=5 [class=60] [weight=0] [properties={...}]       a content header alone
    C: 1 body "ab"                                                    a body frame alone
    C: 1 frame type=4 payload="ab" [end=0] [size=99]                  any frame, also a broken one
    C: octets "AMQP\x00\x00\x09\x01"                                  octets as they are
    C: heartbeat
    C: lose                                                           the socket breaks
    S: 1 queue.declare-ok queue=q message_count=0                     the fields named must be so
    S: 1 basic.deliver body="x" properties={...} ...
    S: octets "..." | heartbeat | nothing | closed | dropped

    row A8 A9                            the rows of docs/features.md that the story shows
    limits NAME=VALUE ...                of ``amqp.context.Limits``; only before the first line of C
    vhost NAME [max_connections=N] [max_queues=N]
    user NAME password=P [configure=RE] [write=RE] [read=RE] [vhosts=[...]] [tags=[...]]
    alarm memory on|off
    clock +2.5
    close C2 "reason"                    what an operator or a shutdown does

Values are bare words, ``"text"`` with the escapes of Python, whole numbers, ``true``/``false``/
``none``, ``[a b]`` arrays and ``{name=value}`` tables. Numbers in tables are signed 32-bit;
``long:5``, ``time:5`` and the like are what they say. ``$name`` stands for what an earlier ``S:``
line had there: the first time it is seen it takes the value. ``/re/`` matches, and a table that
ends in ``...`` may hold more.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hareline.wire.methods import Access, Exchange, Frame, commands, method_name
from hareline.wire.table import (
    Short,
    SignedInt,
    Table,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
)

_ALL_METHODS: Final[tuple[type[Frame], ...]] = (
    *commands.INDEX_MAPPING.values(),
    Access.Request,
    Access.RequestOk,
    Exchange.Bound,
    Exchange.BoundOk,
)
METHOD_CLASSES: Final[Mapping[str, type[Frame]]] = {
    method_name(method_class.index): method_class for method_class in _ALL_METHODS
}
FIELD_NAMES: Final = {  # as pamqp calls them
    ("basic.qos", "global"): "global_",
    ("exchange.declare", "type"): "exchange_type",
}
TYPED: Final[Mapping[str, type[int]]] = {
    "long": int,
    "int": SignedInt,
    "short": Short,
    "byte": UnsignedByte,
    "uint": UnsignedInt,
    "time": Timestamp,
}


class TranscriptError(Exception):
    """A line that is not in the grammar."""


@dataclass(frozen=True)
class Variable:
    """``$name``"""

    name: str


@dataclass(frozen=True)
class Pattern:
    """``/re/``, which the whole text must match."""

    pattern: re.Pattern[str]


@dataclass(frozen=True)
class PartOfTable:
    """``{a=1 ...}``: the table holds at least these."""

    fields: Mapping[str, object]


@dataclass(frozen=True)
class Step:
    """One line. ``who`` is ``C``, ``S2`` ... or empty for what happens around the connections."""

    line: int
    text: str
    who: str
    channel: int | None
    verb: str
    words: list[object] = field(default_factory=list)
    fields: dict[str, object] = field(default_factory=dict)

    @property
    def client(self) -> str:
        """The number of the connection: "" for ``C`` and ``S``, "2" for ``C2`` and ``S2``."""
        return self.who[1:]


def parse(text: str) -> list[Step]:
    steps = []
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            try:
                steps.append(_parse_line(number, stripped))
            except (ValueError, SyntaxError) as problem:
                raise TranscriptError(f"line {number}: {problem}: {stripped}") from None
    return steps


def _parse_line(number: int, line: str) -> Step:
    match = re.match(r"([CS]\d*):\s*(?:(\d+)\s+)?", line)
    who, channel, rest = "", None, line
    if match is not None:
        who = match[1]
        channel = int(match[2]) if match[2] is not None else None
        rest = line[match.end() :]
    verb, _, rest = rest.partition(" ")
    if verb == "method":  # the name of the method is the first word
        name, _, rest = rest.strip().partition(" ")
        verb = f"method {name}"
    reader = _Reader(rest)
    words: list[object] = []
    fields: dict[str, object] = {}
    while not reader.is_done():
        name_match = reader.take(r"([A-Za-z_-]+)=")
        if name_match is not None:
            name = FIELD_NAMES.get((verb, name_match[1]), name_match[1])
            if name in fields:
                raise ValueError(f"{name} comes twice")
            fields[name] = reader.value()
        elif fields:
            raise ValueError("a word behind the fields")
        else:
            words.append(reader.value())
    return Step(number, line, who, channel, verb, words, fields)


class _Reader:
    """Reads values off the front of a line."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()

    def is_done(self) -> bool:
        return not self.text

    def take(self, pattern: str) -> re.Match[str] | None:
        match = re.match(pattern, self.text)
        if match is not None:
            self.text = self.text[match.end() :]
        return match

    def value(self) -> object:
        value = self._value()
        self.text = self.text.lstrip()
        return value

    def _value(self) -> object:
        if self.take(r"\{\s*"):
            return self._table()
        if self.take(r"\[\s*"):
            values = []
            while not self.take(r"\]"):
                values.append(self.value())
            return values
        if match := self.take(r'"(?:[^"\\]|\\.)*"'):
            return str(ast.literal_eval(match[0]))
        if match := self.take(r"/((?:[^/\\]|\\.)*)/"):
            return Pattern(re.compile(match[1].replace("\\/", "/")))
        if match := self.take(r"\$(\w+)"):
            return Variable(match[1])
        if match := self.take(rf"({'|'.join(TYPED)}):(-?\d+)"):
            return TYPED[match[1]](match[2])
        if match := self.take(r"-?\d+(?=[\s\]}]|$)"):
            return SignedInt(match[0])
        if match := self.take(r"[^\s\[\]{}\"=]+"):
            return {"true": True, "false": False, "none": None}.get(match[0], match[0])
        raise ValueError(f"no value at {self.text!r}")

    def _table(self) -> Table | PartOfTable:
        table = Table()
        while not self.take(r"\}"):
            if self.take(r"\.\.\.\s*\}"):
                return PartOfTable(table)
            match = self.take(r'(?:"([^"]+)"|([\w.-]+))=')
            if match is None:
                raise ValueError(f"a table needs name=value at {self.text!r}")
            table[match[1] or match[2]] = self.value()
        return table
