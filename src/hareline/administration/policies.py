"""Policies: arguments for all queues and exchanges whose names match a pattern.

Called by ``management.api`` and by the import of definitions; ``broker.live_arguments`` asks the
``overlay`` of a virtual host what is in force for a queue. As in RabbitMQ one policy and one
operator policy concern an object: those with the highest priority among the ones that match and
that its type can follow. An argument of the queue itself beats the policy, but of two limits the
smaller one counts; an operator policy bounds both.

Invariant: what is in force follows from the arguments and the policies alone; when these change, it
is put in force in shares of the next turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import regex

from hareline import events
from hareline.administration.changes import INTERNAL, Changes
from hareline.administration.checks import check_name, invalid, is_unicode
from hareline.administration.error import AdministrationError, bad_request
from hareline.administration.policy_effects import Refresh
from hareline.administration.policy_keys import KEYS, check_definition, smaller
from hareline.administration.terms import term
from hareline.amqp.context import Context
from hareline.broker.exchanges.alternate import ALTERNATE_EXCHANGE
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.queues.declare.readers import type_name
from hareline.broker.queues.declare.table import BY_FIELD, DEFAULT_QUEUE_TYPE
from hareline.broker.queues.queue import Queue
from hareline.broker.vhost import VirtualHost
from hareline.errors import PreconditionFailed
from hareline.storage.administration import PolicyRecord

APPLY_TO: Final = ("all", "exchanges", "queues", "classic_queues", "quorum_queues", "streams")
MATCH_S: Final = 0.01  # for one name; a pattern that needs more matches nothing
_PRIORITY_MAX: Final = 1 << 31
_QUEUE_TYPES: Final = {
    "classic": "classic_queues",
    "quorum": "quorum_queues",
    "stream": "streams",
}


@dataclass(slots=True)
class Policy:
    """A policy as it is kept, ready to match. ``is_slow``: its pattern takes too long."""

    record: PolicyRecord
    _compiled: regex.Pattern[str] = field(init=False, repr=False)
    is_slow: bool = False

    def __post_init__(self) -> None:
        """Raises AdministrationError for a pattern that is not a regular expression."""
        pattern = self.record.pattern
        try:
            self._compiled = regex.compile(pattern)
        except (regex.error, RecursionError, OverflowError) as problem:
            raise invalid(
                f"pattern should be regular expression but is invalid: {problem}"
            ) from None

    def matches_queue(self, name: str, queue_type: str) -> bool:
        """True if the policy concerns a queue of this name and type."""
        fits = self.record.apply_to in ("all", "queues", _QUEUE_TYPES[queue_type])
        return fits and self._is_for(queue_type) and self._matches(name)

    def matches_exchange(self, name: str) -> bool:
        """True if the policy concerns an exchange of this name."""
        return self.record.apply_to in ("all", "exchanges") and self._matches(name)

    def _is_for(self, queue_type: str) -> bool:
        """True if queues of this type know all that the policy sets."""
        arguments = (KEYS[key].argument for key in self.record.definition)
        return all(each is None or queue_type in each.queue_types for each in arguments)

    def _matches(self, name: str) -> bool:
        if self.is_slow:
            return False
        try:
            return self._compiled.search(name, timeout=MATCH_S) is not None
        except TimeoutError:
            self.is_slow = True
            return False


@dataclass(frozen=True, slots=True)
class Applied:
    """The policies that concern an object; None: no such policy.

    ``definition``: what both come to, before the object's own arguments.
    """

    policy: PolicyRecord | None = None
    operator_policy: PolicyRecord | None = None
    definition: Mapping[str, Any] = field(default_factory=dict)


class Policies:
    """Of all virtual hosts, by kind and name."""

    def __init__(self, context: Context, changes: Changes) -> None:
        self._context = context
        self._changes = changes
        self._by_vhost: dict[str, dict[tuple[bool, str], Policy]] = {}
        self._sorted: dict[tuple[str, bool], list[Policy]] = {}
        for record in changes.store.records(PolicyRecord):
            try:
                policy = Policy(record)
            except AdministrationError as error:  # a later version of ``regex`` is stricter
                self._report(record, error.reason)
            else:
                self._place(policy)

    def _place(self, policy: Policy) -> None:
        record = policy.record
        policies = self._by_vhost.setdefault(record.vhost, {})
        policies[record.is_operator, record.name] = policy
        self._sorted.pop((record.vhost, record.is_operator), None)

    # -------------------------------------------------------------------------- what there is

    def all(self, *, is_operator: bool) -> Iterator[PolicyRecord]:
        """The policies, or the operator policies, of all virtual hosts."""
        for policies in list(self._by_vhost.values()):
            for (kind, _), policy in list(policies.items()):
                if kind == is_operator:
                    yield policy.record

    def lookup(self, vhost: str, name: str, *, is_operator: bool) -> PolicyRecord:
        """Raises AdministrationError if there is no such policy."""
        policy = self._by_vhost.get(vhost, {}).get((is_operator, name))
        if policy is None:
            raise AdministrationError("not_found", f"no policy '{name}' in vhost '{vhost}'")
        return policy.record

    def put(
        self,
        vhost: str,
        name: str,
        *,
        pattern: object,
        definition: object,
        priority: object = 0,
        apply_to: object = "all",
        is_operator: bool = False,
        by: str = INTERNAL,
    ) -> bool:
        """Make or change a policy; True if it was made. Raises AdministrationError."""
        if vhost not in self._context.vhosts:
            raise AdministrationError("not_found", f"no virtual host '{vhost}'")
        check_name("policy", name)
        record = PolicyRecord(
            vhost,
            is_operator,
            name,
            _pattern_of(pattern),
            _apply_to_of(apply_to, is_operator=is_operator),
            _priority_of(priority),
            check_definition(definition, is_operator=is_operator),
        )
        policy = Policy(record)
        before = self._by_vhost.get(vhost, {}).get((is_operator, name))
        self._changes.put(record)
        self._place(policy)
        if before is None or before.record != record:
            self.refresh(vhost)
        self._changes.tell(
            "policy.set",
            by,
            name=name,
            vhost=vhost,
            pattern=record.pattern,
            priority=record.priority,
            definition=dict(record.definition),
            **{"apply-to": record.apply_to},
        )
        return before is None

    def delete(self, vhost: str, name: str, *, is_operator: bool, by: str = INTERNAL) -> None:
        """Delete a policy. Raises AdministrationError if there is none."""
        self._changes.delete(self.lookup(vhost, name, is_operator=is_operator))
        del self._by_vhost[vhost][is_operator, name]
        self._sorted.pop((vhost, is_operator), None)
        self.refresh(vhost)
        event = "operator.policy.cleared" if is_operator else "policy.cleared"
        self._changes.tell(event, by, name=name, vhost=vhost)

    def forget_vhost(self, vhost: str) -> None:
        """A virtual host is gone, with the records of its policies."""
        self._by_vhost.pop(vhost, None)
        self._sorted.pop((vhost, False), None)
        self._sorted.pop((vhost, True), None)

    # ------------------------------------------------------------------------ what is in force

    def of_queue(self, vhost: str, queue: Queue) -> Applied:
        """The policies that concern a queue; none that the broker keeps for itself."""
        if not self._by_vhost.get(vhost) or self._is_the_brokers(vhost, queue):
            return _NONE
        given = queue.arguments.get("x-queue-type")
        queue_type = given if isinstance(given, str) else DEFAULT_QUEUE_TYPE
        return _applied(
            self._first(
                vhost, partial(Policy.matches_queue, name=queue.name, queue_type=queue_type)
            )
        )

    def _is_the_brokers(self, vhost: str, queue: Queue) -> bool:
        """Whether it holds delayed messages of an exchange, or the audit."""
        if isinstance(queue.owner, Exchange):
            return True
        return queue.name == self._context.vhosts[vhost].routing.closed_queue

    def of_exchange(self, vhost: str, exchange: Exchange) -> Applied:
        """The policies that concern an exchange."""
        if not exchange.name or not self._by_vhost.get(vhost):
            return _NONE
        return _applied(self._first(vhost, partial(Policy.matches_exchange, name=exchange.name)))

    def _first(self, vhost: str, matches: partial[bool]) -> list[PolicyRecord | None]:
        """The policy and the operator policy of the highest priority that match."""
        found: list[PolicyRecord | None] = []
        for is_operator in (False, True):
            policies = self._by_priority(vhost, is_operator)
            found.append(next((each.record for each in policies if matches(each)), None))
        return found

    def _by_priority(self, vhost: str, is_operator: bool) -> list[Policy]:
        key = (vhost, is_operator)
        found = self._sorted.get(key)
        if found is None:
            policies = self._by_vhost.get(vhost, {})
            found = self._sorted[key] = sorted(
                (policy for (kind, _), policy in policies.items() if kind == is_operator),
                key=lambda policy: (-policy.record.priority, policy.record.name),
            )
        return found

    def attach(self, vhost: VirtualHost) -> None:
        """Have queues and exchanges of this virtual host follow the policies from now on."""
        vhost.live_arguments.overlay = partial(self._overlay, vhost.name)
        vhost.follow(partial(self._on_queue_added, vhost), partial(self._set_alternate, vhost))
        if self._by_vhost.get(vhost.name):
            self.refresh(vhost.name)

    def refresh(self, vhost_name: str) -> None:
        """Put in force what follows now: a first share at once, the rest in the next turns."""
        vhost = self._context.vhosts[vhost_name]
        for exchange in vhost.exchanges.values():
            self._set_alternate(vhost, exchange)
        report = partial(self._report_queue, vhost_name)
        self._context.shares.start(Refresh(vhost, self._context.clock, report))

    def _on_queue_added(self, vhost: VirtualHost, queue: Queue) -> None:
        if self.of_queue(vhost.name, queue).definition:
            try:
                vhost.live_arguments.refresh(queue)
            except PreconditionFailed as error:
                self._report_queue(vhost.name, queue.name, error.explanation)

    def _overlay(
        self, vhost_name: str, queue: Queue, own: Mapping[str, object]
    ) -> Mapping[str, object]:
        """The arguments to be in force for a queue with these of its own."""
        definition = self.of_queue(vhost_name, queue).definition
        if not definition:
            return own
        return overlaid_by_policy(own, definition)

    def _set_alternate(self, vhost: VirtualHost, exchange: Exchange) -> None:
        """An alternate exchange of the exchange's own beats that of the policy."""
        alternate = exchange.arguments.get(ALTERNATE_EXCHANGE)
        if alternate is None:
            alternate = self.of_exchange(vhost.name, exchange).definition.get(ALTERNATE_EXCHANGE)
        if isinstance(alternate, str | None) and exchange.alternate_exchange != alternate:
            exchange.alternate_exchange = alternate
            vhost.routing.mark_changed()

    def _report_queue(self, vhost: str, queue: str, problem: str) -> None:
        self._context.report(
            events.POLICY_NOT_APPLIED, what=f"queue '{queue}'", problem=problem, vhost=vhost
        )

    def _report(self, record: PolicyRecord, problem: str) -> None:
        self._context.report(
            events.POLICY_NOT_APPLIED,
            what=f"policy '{record.name}'",
            problem=problem,
            vhost=record.vhost,
        )


_NONE: Final = Applied()


def overlaid_by_policy(
    own: Mapping[str, object], definition: Mapping[str, Any]
) -> Mapping[str, object]:
    """The arguments of a queue with what a policy adds to them, or bounds."""
    result = dict(own)
    for name, value in definition.items():
        key = KEYS[name]
        argument = key.argument
        if argument is None:
            continue
        given = argument.names_in(own)
        if not given:
            result[argument.name] = value
        elif key.is_limit:
            mine = own[given[0].name]
            mine = given[0].reader(mine, type_name(mine))
            if smaller(mine, value) != mine:
                for alias in given:
                    del result[alias.name]
                result[argument.name] = value
    for name in definition:  # what is of no use without another one
        argument = KEYS[name].argument
        if argument is None or argument.needs is None or argument.name in own:
            continue
        if not BY_FIELD[argument.needs[0]].names_in(result):
            result.pop(argument.name, None)
    return result


def _applied(found: list[PolicyRecord | None]) -> Applied:
    policy, operator_policy = found
    if policy is None and operator_policy is None:
        return _NONE
    definition = dict(policy.definition) if policy is not None else {}
    if operator_policy is not None:
        for name, value in operator_policy.definition.items():
            definition[name] = smaller(value, definition.get(name, value))
    return Applied(policy, operator_policy, definition)


def _pattern_of(pattern: object) -> str:
    if not isinstance(pattern, str):
        raise invalid(f"pattern should be a binary but was {term(pattern)}")
    if not is_unicode(pattern):
        raise invalid("pattern should be regular expression but is not Unicode")
    return pattern


def _apply_to_of(apply_to: object, *, is_operator: bool) -> str:
    known = [each for each in APPLY_TO if not (is_operator and each in ("all", "exchanges"))]
    if is_operator and apply_to in ("all", None):
        return "queues"
    if apply_to is None:
        return "all"
    if not isinstance(apply_to, str) or apply_to not in known:
        shown = ", ".join(f"'{each}'" for each in known)
        raise invalid(f"apply-to '{apply_to}' unrecognised; should be one of {shown}")
    return apply_to


def _priority_of(priority: object) -> int:
    if priority is None:
        return 0
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise invalid(f"priority should be a number, actually was {term(priority)}")
    if not -_PRIORITY_MAX <= priority < _PRIORITY_MAX:
        raise bad_request(f"priority {priority} has more than 32 bits")
    return priority
