"""Definitions in RabbitMQ's JSON, taken over: merged with what is there, nothing deleted.

Each item is done by itself: one that cannot be carried over is left out and listed with the reason.
A second import of the same file changes nothing. Text in RabbitMQ's form for octets that are not
UTF-8 is those octets again.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from hareline import events
from hareline.administration.administration import Administration
from hareline.administration.changes import INTERNAL
from hareline.administration.checks import (
    DEPTH_MAX,
    AdministrationError,
    bad_request,
    is_shallow,
)
from hareline.administration.definitions_export import (
    OF_BROKER,
    OPERATOR_POLICY,
    QUEUE_SETTINGS,
    queue_settings,
)
from hareline.administration.parameters import COMPONENTS, VHOST_LIMITS
from hareline.administration.policy_keys import WITHOUT_EFFECT
from hareline.amqp.context import Context
from hareline.broker.delayed_exchange import DELAYED_MESSAGE
from hareline.broker.registry import RESERVED_PREFIX
from hareline.broker.vhost import VirtualHost
from hareline.errors import AmqpError, StoreError
from hareline.events import Report
from hareline.octets import restored, with_texts
from hareline.wire.constants import SHORTSTR_MAX_OCTETS

WORK_PER_STEP: Final = 20  # items, some 3 ms
_HASHING: Final = WORK_PER_STEP  # work: a password is hashed for SCRAM too
REPORTED_MAX: Final = 100  # items that were left out, in the log
_DELAYED_IN_LAVINMQ: Final = "x-delayed-exchange"  # what LavinMQ exports for x-delayed-message
#: Lists of a file in the order in which each needs what comes before it.
_ORDER: Final = (
    "users",
    "vhosts",
    "permissions",
    "topic_permissions",
    "exchanges",
    "global_parameters",
    "policies",
    "parameters",
    "queues",
    "bindings",
)

#: Of them, what is not of one virtual host.
_OF_BROKER: Final = frozenset((*OF_BROKER, "global_parameters"))

Item = Mapping[str, Any]


class LeftOut(NamedTuple):
    """``what``: the list of the item in singular, ``name``: which one, ``vhost``: "" for none."""

    what: str
    name: str
    vhost: str
    reason: str


class Import:
    """``done``: how many items of each list were taken over. ``left_out``: the others.

    ``vhost``: the virtual host that items without one belong to; None: they need one of their own.
    """

    def __init__(
        self,
        context: Context,
        administration: Administration,
        definitions: object,
        *,
        vhost: str | None = None,
        by: str = INTERNAL,
    ) -> None:
        """Raises AdministrationError if this is not the JSON of definitions."""
        self._context = context
        self._administration = administration
        self._definitions = _checked(definitions)
        self._vhost = vhost
        self._by = by
        self.done: dict[str, int] = {}
        self.left_out: list[LeftOut] = []

    def steps(self) -> Generator[None, None, None]:
        """Take everything over, some items a step, which is a batch of changes.

        The caller waits until it is settled, and lets others have their turn, between the steps. If
        one is lost, a restart has none of it.
        """
        items = self._items()
        is_over = False
        while not is_over:
            with self._administration.changes.batch():
                is_over = self._take_some(items)
            yield

    def _take_some(self, items: Iterator[tuple[str, Item]]) -> bool:
        """Take over what fits into a step; True if that was all."""
        work = 0
        for name, item in items:
            self._take(name, item)
            work += _HASHING if name == "users" and item.get("password") else 1
            if work >= WORK_PER_STEP:
                return False
        return True

    def _items(self) -> Iterator[tuple[str, Item]]:
        for name in _ORDER:
            for item in self._definitions.get(name) or ():
                yield name, item
        if self._vhost is not None and self._definitions.get("limits"):
            limits = {"component": VHOST_LIMITS, "name": "limits"}
            yield "parameters", {**limits, "value": self._definitions["limits"]}

    def _take(self, name: str, item: Item) -> None:
        try:
            if self._vhost is not None and name in _OF_BROKER:
                raise bad_request("belongs to no virtual host: import it by /api/definitions")
            if not is_shallow(item):
                raise bad_request(f"more than {DEPTH_MAX} arrays and objects within one another")
            getattr(self, f"_take_{name}")(cast("Item", with_texts(item, restored)))
        except StoreError:
            raise
        except AdministrationError as error:
            self._leave_out(name, item, error.reason.strip().replace("\n\n", ": "))
        except AmqpError as error:
            self._leave_out(name, item, error.explanation)
        except ValueError as error:  # arguments that no table of AMQP can hold
            self._leave_out(name, item, str(error))
        else:
            self.done[name] = self.done.get(name, 0) + 1

    def _leave_out(self, name: str, item: Item, reason: str) -> None:
        vhost = item.get("vhost", self._vhost)
        self.left_out.append(
            LeftOut(
                name.removesuffix("s") if name != "policies" else "policy",
                _name_of(item),
                vhost if isinstance(vhost, str) else "",
                reason,
            )
        )

    # ---------------------------------------------------------------------------- of the broker

    def _take_users(self, item: Item) -> None:
        users, name = self._administration.users, _text(item, "name")
        tags = item.get("tags", "")
        if "tags" not in item and str(item.get("administrator", "")).lower() == "true":
            tags = "administrator"
        users.put(
            name,
            password=_text_or_none(item, "password"),
            password_hash=_text_or_none(item, "password_hash"),
            hashing=_text_or_none(item, "hashing_algorithm"),
            tags=_words(tags),
            by=self._by,
        )
        limits = item.get("limits") or {}
        if isinstance(limits, Mapping):
            for limit, value in limits.items():
                users.set_limit(name, limit, value, by=self._by)

    def _take_vhosts(self, item: Item) -> None:
        metadata = item.get("metadata")
        known = {**metadata, **item} if isinstance(metadata, Mapping) else item
        queue_type = _text_or_none(known, "default_queue_type")
        tracing, is_protected = known.get("tracing"), known.get("protected_from_deletion")
        self._administration.vhosts.put(
            _text(item, "name"),
            description=_text_or_none(known, "description"),
            tags=_words(known["tags"]) if known.get("tags") else None,
            default_queue_type=None if queue_type == "undefined" else queue_type,
            tracing=tracing if isinstance(tracing, bool) else None,
            is_protected=is_protected if isinstance(is_protected, bool) else None,
            by=self._by,
        )

    def _take_permissions(self, item: Item) -> None:
        names = ("user", "vhost", "configure", "write", "read")
        self._administration.users.put_permission(
            *(_text(item, name) for name in names), by=self._by
        )

    def _take_topic_permissions(self, item: Item) -> None:
        names = ("user", "vhost", "exchange", "write", "read")
        self._administration.users.put_topic_permission(
            *(_text(item, name) for name in names), by=self._by
        )

    def _take_global_parameters(self, item: Item) -> None:
        self._administration.parameters.put_global(
            _text(item, "name"), item.get("value"), by=self._by
        )

    # ------------------------------------------------------------------------- of virtual hosts

    def _take_policies(self, item: Item) -> None:
        self._put_policy(item, _text(item, "name"), item, is_operator=False)

    def _put_policy(self, item: Item, name: str, value: Item, *, is_operator: bool) -> None:
        definition = value.get("definition")
        self._administration.policies.put(
            self._vhost_name(item),
            name,
            pattern=value.get("pattern"),
            definition=definition,
            priority=value.get("priority", 0),
            apply_to=value.get("apply-to"),
            is_operator=is_operator,
            by=self._by,
        )
        idle = sorted(WITHOUT_EFFECT.intersection(definition or ()))
        if idle:
            reason = f"kept, but these keys have no effect here: {', '.join(idle)}"
            self._leave_out("policies", item, reason)

    def _take_parameters(self, item: Item) -> None:
        component, name = _text(item, "component"), _text(item, "name")
        value = item.get("value")
        if component == OPERATOR_POLICY and isinstance(value, Mapping):
            self._put_policy(item, name, value, is_operator=True)
            return
        self._administration.parameters.put(
            component, self._vhost_name(item), name, value, by=self._by
        )
        if component in COMPONENTS and component != VHOST_LIMITS:
            reason = f"kept, but nothing runs it: this broker has no {component}"
            self._leave_out("parameters", item, reason)

    def _take_exchanges(self, item: Item) -> None:
        name = _short_text(item, "name")
        if not name or name.startswith(RESERVED_PREFIX):
            return  # every virtual host has those
        kind = _text(item, "type")
        self._vhost_of(item).declare_exchange(
            name,
            DELAYED_MESSAGE if kind == _DELAYED_IN_LAVINMQ else kind,
            is_durable=_flag(item, "durable", True),
            is_auto_delete=_flag(item, "auto_delete", False),
            is_internal=_flag(item, "internal", False),
            arguments=_arguments(item),
        )

    def _take_queues(self, item: Item) -> None:
        name = _short_text(item, "name")
        if name.startswith(RESERVED_PREFIX):
            raise bad_request(f"names beginning with '{RESERVED_PREFIX}' are the broker's")
        if not name:
            raise bad_request("a queue needs a name")
        if _flag(item, "exclusive", False):
            raise bad_request("an exclusive queue lives as long as its connection")
        vhost = self._vhost_of(item)
        is_new = name not in vhost.queues
        settings = _queue_settings(item)
        queue = vhost.declare_queue(
            name,
            is_durable=_flag(item, "durable", True),
            is_auto_delete=_flag(item, "auto_delete", False),
            owner=None,
            arguments=_arguments(item),
        )
        if is_new:
            # first, so that it holds also where a change cannot be made
            vhost.live_arguments.set_paused(queue, paused=settings.get("paused", False))
            if "changes" in settings:
                vhost.live_arguments.change(queue, settings["changes"])
        elif settings and settings != queue_settings(vhost, queue):
            raise bad_request("it is there, and what operators have changed of it stays as it is")

    def _take_bindings(self, item: Item) -> None:
        source, destination = _text(item, "source"), _text(item, "destination")
        if not source:
            return  # every queue is bound to the default exchange
        vhost = self._vhost_of(item)
        bind = partial(vhost.bind, source)
        key, arguments = _short_text(item, "routing_key"), _arguments(item)
        if _text(item, "destination_type") == "queue":
            bind("queue", vhost.queue(destination, None), key, arguments)
        else:
            bind("exchange", vhost.exchange(destination), key, arguments)

    # ------------------------------------------------------------------------------------ below

    def _vhost_name(self, item: Item) -> str:
        if self._vhost is not None:
            return self._vhost
        return _text(item, "vhost")

    def _vhost_of(self, item: Item) -> VirtualHost:
        name = self._vhost_name(item)
        vhost = self._context.vhosts.get(name)
        if vhost is None:
            raise bad_request(f"there is no virtual host '{name}'")
        return vhost


def report_import(report: Report, done: Import, source: str) -> None:
    """Log an import, and what it left out."""
    counts = ", ".join(f"{count} {name}" for name, count in done.done.items())
    report(events.DEFINITIONS_IMPORTED, source=source, counts=counts, left_out=len(done.left_out))
    for each in done.left_out[:REPORTED_MAX]:
        what = f"{each.what} '{each.name}'" + (f" in vhost '{each.vhost}'" if each.vhost else "")
        report(events.DEFINITION_LEFT_OUT, what=what, problem=each.reason, source=source)


def _checked(definitions: object) -> Mapping[str, Any]:
    if not isinstance(definitions, Mapping):
        raise bad_request("definitions: not a JSON object")
    for name in _ORDER:
        items = definitions.get(name)
        if items is None:
            continue
        if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
            raise bad_request(f"definitions: {name} is not an array of objects")
    return definitions


def _name_of(item: Item) -> str:
    """Return the name of an item, for the list of those that were left out."""
    if "source" in item:
        return f"{item.get('source')} -> {item.get('destination')} ({item.get('routing_key')})"
    if "user" in item:
        return str(item["user"])
    component = f"{item['component']}/" if "component" in item else ""
    return f"{component}{item.get('name', '')}"


def _text(item: Item, name: str) -> str:
    value = item.get(name)
    if not isinstance(value, str):
        raise bad_request(f"{name}: {'missing' if value is None else 'not a text'}")
    return value


def _short_text(item: Item, name: str) -> str:
    """A name or a key, which has to fit into a short string of AMQP."""
    text = _text(item, name)
    if _is_long(text):
        raise bad_request(f"{name}: longer than {SHORTSTR_MAX_OCTETS} octets")
    return text


def _is_long(text: str) -> bool:
    """Raises ValueError for half a character, which no name can hold."""
    return len(text.encode("utf-8", "surrogateescape")) > SHORTSTR_MAX_OCTETS


def _text_or_none(item: Item, name: str) -> str | None:
    return _text(item, name) if item.get(name) not in (None, "") else None


def _flag(item: Item, name: str, default: bool) -> bool:
    value = item.get(name, default)
    if not isinstance(value, bool):
        raise bad_request(f"{name}: neither true nor false")
    return value


def _words(tags: object) -> list[str]:
    """Tags as a list, or as a text with commas."""
    if isinstance(tags, str):
        tags = tags.split(",")
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise bad_request("tags: neither a text nor a list of texts")
    return [tag for tag in map(str.strip, tags) if tag]


def _arguments(item: Item) -> Mapping[str, object]:
    """Raises AdministrationError for what no table of AMQP can hold."""
    arguments = item.get("arguments") or {}
    if not isinstance(arguments, Mapping):
        raise bad_request("arguments: not an object")
    _check_value("arguments", arguments)
    return arguments


def _queue_settings(item: Item) -> dict[str, Any]:
    """Changes by operators and a pause, without what is not set. Raises AdministrationError."""
    given = item.get(QUEUE_SETTINGS) or {}
    if not isinstance(given, Mapping):
        raise bad_request(f"{QUEUE_SETTINGS}: not an object")
    settings: dict[str, Any] = {}
    changes = given.get("changes") or {}
    if not isinstance(changes, Mapping):
        raise bad_request(f"{QUEUE_SETTINGS}: changes: not an object")
    if changes:
        _check_value("changes", changes)
        settings["changes"] = dict(changes)
    if _flag(given, "paused", False):
        settings["paused"] = True
    return settings


def _check_value(name: str, value: object) -> None:
    if isinstance(value, int) and not isinstance(value, bool) and not -(1 << 63) <= value < 1 << 63:
        raise bad_request(f"arguments: '{name}' has more than 64 bits")
    if isinstance(value, Mapping):
        for key, each in value.items():
            if _is_long(key):
                raise bad_request(
                    f"arguments: the name '{key[:40]}...' is longer than "
                    f"{SHORTSTR_MAX_OCTETS} octets"
                )
            _check_value(key, each)
    elif isinstance(value, list):
        for each in value:
            _check_value(name, each)


# ----------------------------------------------------------------------------- files of definitions


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
