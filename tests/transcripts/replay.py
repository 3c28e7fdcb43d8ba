"""Replays a transcript through ``amqp.Connection``, with no socket and no clock but our own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as fields_of
from dataclasses import replace
from typing import Any, cast

from hareline.amqp.alarms import Resource
from hareline.auth.permissions import Permissions
from hareline.wire.methods import commands, encode_method
from hareline.wire.properties import Properties, encode_properties
from hareline.wire.table import Table

from ..unit.amqp.peer import (
    BODY,
    CAPABILITIES,
    HEADER,
    HEARTBEAT,
    Peer,
    Received,
    SteppedBroker,
    frame,
    publish_octets,
    read_frames,
    split_frames,
)
from .transcript import METHOD_CLASSES, PartOfTable, Pattern, Step, TranscriptError, Variable


class Mismatch(AssertionError):
    """The broker did not say what the transcript has; names the line."""

    def __init__(self, step: Step, problem: str) -> None:
        super().__init__(f"line {step.line}: {step.text}\n  {problem}")


class Client:
    """One connection of a transcript and what it has received and not yet matched."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.octets = b""
        self.received: list[Received] = []

    def collect(self) -> None:
        self.octets += self.peer.transport.written
        self.peer.transport.written = b""

    def next(self) -> Received | None:
        if self.octets:
            self.received += read_frames(split_frames(self.octets))
            self.octets = b""
        return self.received.pop(0) if self.received else None

    def leftover(self) -> str:
        """What came that nobody asked for; empty if nothing did."""
        one = self.next()
        return "" if one is None else shown(one)


class Replay:
    """``run`` raises Mismatch at the first line that does not hold."""

    def __init__(self) -> None:
        self.broker = SteppedBroker()
        self.clients: dict[str, Client] = {}
        self.variables: dict[str, object] = {}

    def run(self, steps: list[Step]) -> None:
        reading: dict[str, bytes] = {}  # what each client says in this turn
        for step in steps:
            if step.who.startswith("C") and step.verb not in ("open", "lose"):
                self._check_all_matched(step)
                octets = self._octets(step)
                for other in [client for client in reading if client != step.client]:
                    self._feed(other, reading.pop(other))
                reading[step.client] = reading.get(step.client, b"") + octets
                continue
            for client in list(reading):
                self._feed(client, reading.pop(client))
            self._collect()
            if step.who.startswith("S"):
                self._expect(step)
            else:
                self._check_all_matched(step)
                self._happen(step)
        for client, octets in reading.items():
            self._feed(client, octets)
        self._collect()
        if steps:
            self._check_all_matched(steps[-1])

    # ------------------------------------------------------------------------ saying

    def _client(self, name: str) -> Client:
        client = self.clients.get(name)
        if client is None:
            client = self.clients[name] = Client(self.broker.accept())
        return client

    def _feed(self, name: str, octets: bytes) -> None:
        self._client(name).peer.send_octets(octets)

    def _collect(self) -> None:
        self.broker.run_turns()
        for client in self.clients.values():
            client.collect()

    def _check_all_matched(self, step: Step) -> None:
        for name, client in self.clients.items():
            if leftover := client.leftover():
                raise Mismatch(step, f"before this line S{name} also sent {leftover}")

    def _octets(self, step: Step) -> bytes:
        return octets_of(replace(step, fields=self._substituted(step.fields)))

    def _substituted(self, fields: Mapping[str, object]) -> dict[str, object]:
        return {name: self._value(value) for name, value in fields.items()}

    def _value(self, value: object) -> object:
        if isinstance(value, Variable):
            return self.variables[value.name]
        if isinstance(value, Table):
            return Table(self._substituted(value))
        if isinstance(value, list):
            return [self._value(item) for item in value]
        return value

    # --------------------------------------------------------------------- happening

    def _happen(self, step: Step) -> None:
        fields: dict[str, Any] = self._substituted(step.fields)
        words = [str(word) for word in step.words]
        match step.verb:
            case "open":
                open_connection(self._client(step.client).peer, fields)
            case "lose":
                self._client(step.client).peer.lose()
            case "limits":
                self.broker.context.limits = replace(self.broker.context.limits, **fields)
            case "vhost":
                self.broker.add_vhost(words[0], **fields)
            case "user":
                rights = Permissions(*(fields.pop(n, ".*") for n in ("configure", "write", "read")))
                self.broker.add_user(words[0], permissions=rights, **fields)
            case "alarm":
                alarms = self.broker.context.alarms
                (alarms.set if step.words[1] == "on" else alarms.clear)(cast("Resource", words[0]))
            case "clock":
                self.broker.advance(float(words[0]))
            case "row":
                pass  # for docs/features.md: scripts/write_features.py reads it
            case "close":
                self._client(words[0][1:]).peer.connection.force_close(words[1])
            case _:
                raise TranscriptError(f"line {step.line}: nobody knows what this is: {step.text}")

    # --------------------------------------------------------------------- expecting

    def _expect(self, step: Step) -> None:
        client = self._client(step.client)
        if step.verb in ("closed", "dropped"):
            if leftover := client.leftover():
                raise Mismatch(step, f"it sent {leftover}")
            if client.peer.transport.state != step.verb:
                raise Mismatch(step, f"the socket is {client.peer.transport.state}")
        elif step.verb == "nothing":
            if leftover := client.leftover():
                raise Mismatch(step, f"it sent {leftover}")
        elif step.verb == "octets":
            expected = str(step.words[0]).encode("latin-1")
            if client.octets[: len(expected)] != expected:
                raise Mismatch(step, f"it sent {client.octets!r}")
            client.octets = client.octets[len(expected) :]
        else:
            self._expect_method(step, client.next())

    def _expect_method(self, step: Step, received: Received | None) -> None:
        if received is None:
            raise Mismatch(step, "it sent nothing")
        if received.name != step.verb or received.channel != (step.channel or 0):
            raise Mismatch(step, f"it sent {shown(received)}")
        for name, expected in step.fields.items():
            problem = self.difference(expected, actual_value(received, name))
            if problem:
                raise Mismatch(step, f"{name}: {problem}\n  it sent {shown(received)}")

    def difference(self, expected: object, actual: object) -> str:
        """Why the two do not agree, or nothing. A new variable takes the actual value."""
        if isinstance(expected, Variable):
            expected = self.variables.setdefault(expected.name, actual)
        if isinstance(expected, Pattern):
            is_same = isinstance(actual, str) and expected.pattern.fullmatch(actual) is not None
            return "" if is_same else f"{actual!r} does not match {expected.pattern.pattern!r}"
        if isinstance(expected, PartOfTable | Table) and isinstance(actual, dict):
            wanted = expected.fields if isinstance(expected, PartOfTable) else expected
            if isinstance(expected, Table) and set(actual) != set(wanted):
                return f"there are {sorted(actual)}"
            for key, value in wanted.items():
                if key not in actual:
                    return f"there is no {key}"
                if problem := self.difference(value, actual[key]):
                    return f"{key}: {problem}"
            return ""
        if isinstance(expected, list) and isinstance(actual, list):
            if len(expected) != len(actual):
                return f"there are {len(actual)} values"
            problems = map(self.difference, expected, actual)
            return next((problem for problem in problems if problem), "")
        is_same = str(expected) == actual if isinstance(actual, str) else expected == actual
        return "" if is_same else f"{actual!r} is not {expected!r}"


# ------------------------------------------------------------------------------- octets


def octets_of(step: Step) -> bytes:
    """What a ``C:`` line sends; its variables have been filled in."""
    number = step.channel or 0
    fields: dict[str, Any] = dict(step.fields)
    match step.verb:
        case "octets":
            return str(step.words[0]).encode("latin-1")
        case "heartbeat":
            return frame(HEARTBEAT, number, b"")
        case "header":
            size, class_id = fields.get("size", 0), fields.get("class", 60)
            head = (class_id, 2), (fields.get("weight", 0), 2), (size, 8)
            fixed = b"".join(value.to_bytes(count, "big") for value, count in head)
            return frame(HEADER, number, fixed + encode_properties(properties_of(fields)))
        case "body":
            return frame(BODY, number, str(step.words[0]).encode("latin-1"))
        case "frame":
            octets = bytearray(frame(fields["type"], number, fields["payload"].encode("latin-1")))
            if "size" in fields:
                octets[3:7] = fields["size"].to_bytes(4, "big")
            if "end" in fields:
                octets[-1] = fields["end"]
            return bytes(octets)
        case "basic.publish":
            body = str(fields.pop("body", "")).encode("latin-1")
            properties = properties_of(fields)
            fields.pop("properties", None)
            return publish_octets(
                number, fields.pop("routing_key", ""), body, properties, **texts(fields)
            )
    method_class = METHOD_CLASSES.get(step.verb.removeprefix("method "))
    if method_class is None:
        raise TranscriptError(f"line {step.line}: nobody knows {step.verb}: {step.text}")
    return encode_method(number, method_class, **texts(fields))


def texts(fields: Mapping[str, object]) -> dict[str, Any]:
    """Text stays text and tables tables; octets of a long string are written as latin-1."""
    return {
        name: value.encode("latin-1") if name == "response" and isinstance(value, str) else value
        for name, value in fields.items()
    }


def properties_of(fields: Mapping[str, Any]) -> Properties:
    return Properties(**fields.get("properties", {}))


def open_connection(peer: Peer, fields: Mapping[str, Any]) -> None:
    """The handshake, with its answers checked for what they are and then forgotten."""
    user = str(fields.get("user", "guest"))
    peer.start(
        user,
        str(fields.get("password", user)),
        capabilities=fields.get("capabilities", CAPABILITIES),
    )
    peer.expect(commands.Connection.Tune)
    peer.frame_max = fields.get("frame_max", 131_072)
    peer.send(
        0,
        commands.Connection.TuneOk,
        frame_max=peer.frame_max,
        channel_max=fields.get("channel_max", 2047),
        heartbeat=fields.get("heartbeat", 0),
    )
    peer.call(0, commands.Connection.Open, virtual_host=str(fields.get("vhost", "/")))
    for number in fields.get("channels", [1]):
        peer.open(number)


# ------------------------------------------------------------------------------- reading


def actual_value(received: Received, name: str) -> object:
    """The field of what came; its body as text, its properties as a table."""
    if name == "body":
        return received.body.decode("latin-1")
    if name == "properties":
        return given_properties(received)
    return getattr(received.method, name)


def given_properties(received: Received) -> Table:
    """The properties that are there, by name."""
    properties = received.properties or Properties()
    return Table(
        {
            one.name: value
            for one in fields_of(properties)
            if (value := getattr(properties, one.name)) is not None
        }
    )


def shown(received: Received) -> str:
    """A received method as a transcript would write it."""
    method = received.method
    values = {} if method is None else {name: getattr(method, name) for name in method.__slots__}
    if received.properties is not None:
        values |= {"body": received.body, "properties": dict(given_properties(received))}
    named = " ".join(f"{name}={value!r}" for name, value in values.items())
    return f"{received.channel} {received.name} {named}"
