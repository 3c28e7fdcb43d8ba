"""Policies: arguments for all queues and exchanges whose names match a pattern.

Called by ``management.api`` and by the import of definitions; ``broker.live_arguments`` asks the
``overlay`` of a virtual host what is in force for a queue. ``policy_matching`` finds the policies
that concern an object, ``policy_keys`` says what they make of its arguments.

Invariant: what is in force follows from the arguments and the policies alone; when these change, it
is put in force in shares of the next turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from hareline import events
from hareline.administration.changes import INTERNAL, Changes
from hareline.administration.checks import (
    AdministrationError,
    bad_request,
    check_name,
    invalid,
    is_unicode,
    term,
)
from hareline.administration.policy_effects import Refresh
from hareline.administration.policy_keys import check_definition, overlaid_by_policy
from hareline.administration.policy_matching import NONE_APPLIED, Applied, Policy, VhostPolicies
from hareline.amqp.context import Context
from hareline.broker.exchanges.alternate import ALTERNATE_EXCHANGE
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.vhost import VirtualHost
from hareline.errors import PreconditionFailed
from hareline.patterns import check_pattern
from hareline.queues.declare.table import DEFAULT_QUEUE_TYPE
from hareline.queues.queue import Queue
from hareline.storage.administration import PolicyRecord

APPLY_TO: Final = ("all", "exchanges", "queues", "classic_queues", "quorum_queues", "streams")
_PRIORITY_MAX: Final = 1 << 31


class Policies:
    """Of all virtual hosts."""

    def __init__(self, context: Context, changes: Changes) -> None:
        self._context = context
        self._changes = changes
        self._by_vhost: dict[str, VhostPolicies] = {}
        self._refreshing: dict[str, Refresh] = {}
        for record in changes.store.records(PolicyRecord):
            try:
                policy = Policy(record)
            except ValueError as error:  # a later version of ``regex`` is stricter
                reason = f"pattern should be regular expression but is invalid: {error}"
                self._report(record.vhost, f"policy '{record.name}'", reason)
            else:
                self._of(record.vhost).place(policy)

    def _of(self, vhost: str) -> VhostPolicies:
        policies = self._by_vhost.get(vhost)
        if policies is None:
            policies = self._by_vhost[vhost] = VhostPolicies(partial(self._report, vhost))
        return policies

    # -------------------------------------------------------------------------- what there is

    def all(self, *, is_operator: bool) -> Iterator[PolicyRecord]:
        """The policies, or the operator policies, of all virtual hosts."""
        for policies in list(self._by_vhost.values()):
            for policy in policies.all(is_operator=is_operator):
                yield policy.record

    def lookup(self, vhost: str, name: str, *, is_operator: bool) -> PolicyRecord:
        """Raises AdministrationError if there is no such policy."""
        policies = self._by_vhost.get(vhost)
        policy = None if policies is None else policies.lookup(name, is_operator=is_operator)
        if policy is None:
            raise AdministrationError("not_found", f"no policy '{name}' in vhost '{vhost}'")
        return policy.record

    def slow_names(self, record: PolicyRecord) -> tuple[int, Sequence[str]]:
        """For how many names the pattern of a policy took too long, and the first of them."""
        policies = self._by_vhost.get(record.vhost)
        if policies is None:
            return 0, ()
        policy = policies.lookup(record.name, is_operator=record.is_operator)
        return (0, ()) if policy is None else (policy.slow_count, policy.slow_names)

    def prepared(
        self,
        vhost: str,
        name: str,
        *,
        pattern: object,
        definition: object,
        priority: object = 0,
        apply_to: object = "all",
        is_operator: bool = False,
    ) -> Policy:
        """The policy that ``put`` would make of this. Raises AdministrationError."""
        if vhost not in self._context.vhosts:
            raise AdministrationError("not_found", f"no virtual host '{vhost}'")
        check_name("policy", name)
        return Policy(
            PolicyRecord(
                vhost,
                is_operator,
                name,
                _pattern_of(pattern),
                _apply_to_of(apply_to, is_operator=is_operator),
                _priority_of(priority),
                check_definition(definition, is_operator=is_operator),
            )
        )

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
        policy = self.prepared(
            vhost,
            name,
            pattern=pattern,
            definition=definition,
            priority=priority,
            apply_to=apply_to,
            is_operator=is_operator,
        )
        record = policy.record
        policies = self._of(vhost)
        before = policies.lookup(name, is_operator=is_operator)

        def apply() -> None:
            policies.place(policy)
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

        self._changes.write(apply, put=[record])
        return before is None

    def delete(self, vhost: str, name: str, *, is_operator: bool, by: str = INTERNAL) -> None:
        """Delete a policy. Raises AdministrationError if there is none."""
        record = self.lookup(vhost, name, is_operator=is_operator)

        def apply() -> None:
            self._by_vhost[vhost].remove(name, is_operator=is_operator)
            self.refresh(vhost)
            event = "operator.policy.cleared" if is_operator else "policy.cleared"
            self._changes.tell(event, by, name=name, vhost=vhost)

        self._changes.write(apply, delete=[record])

    def forget_vhost(self, vhost: str) -> None:
        """A virtual host is gone, with the records of its policies."""
        self._by_vhost.pop(vhost, None)

    # ------------------------------------------------------------------------ what is in force

    def of_queue(self, vhost: str, queue: Queue) -> Applied:
        """The policies that concern a queue; none that the broker keeps for itself."""
        policies = self._by_vhost.get(vhost)
        if not policies or self._is_the_brokers(vhost, queue):
            return NONE_APPLIED
        return policies.of_queue(queue.name, _type_of(queue))

    def would_concern(self, policy: Policy, queue: Queue) -> bool:
        """True if this policy, in force or not, can be that of the queue."""
        if self._is_the_brokers(policy.record.vhost, queue):
            return False
        return policy.is_for_queues(_type_of(queue)) and matches_in_time(policy, queue.name)

    def _is_the_brokers(self, vhost: str, queue: Queue) -> bool:
        """Whether it holds delayed messages of an exchange, or the audit."""
        if isinstance(queue.owner, Exchange):
            return True
        return queue.name == self._context.vhosts[vhost].routing.closed_queue

    def of_exchange(self, vhost: str, exchange: Exchange) -> Applied:
        """The policies that concern an exchange."""
        policies = self._by_vhost.get(vhost)
        if not exchange.name or not policies:
            return NONE_APPLIED
        return policies.of_exchange(exchange.name)

    def attach(self, vhost: VirtualHost) -> None:
        """Have queues and exchanges of this virtual host follow the policies from now on."""
        vhost.live_arguments.overlay = partial(self._overlay, vhost.name)
        vhost.follow(partial(self._on_queue_added, vhost), partial(self._set_alternate, vhost))
        if self._by_vhost.get(vhost.name):
            self.refresh(vhost.name)

    def refresh(self, vhost_name: str) -> None:
        """Put in force what follows now: a first share at once, the rest in the next turns."""
        context = self._context
        vhost = context.vhosts[vhost_name]
        running = self._refreshing.get(vhost_name)
        if running is not None and running.goes_on_for(vhost):
            running.begin_again()
            return
        refresh = Refresh(
            vhost,
            context,
            partial(self._set_alternate, vhost),
            partial(self._report_queue, vhost_name),
        )
        if not context.shares.start(refresh):
            self._refreshing[vhost_name] = refresh

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
        applied = self.of_queue(vhost_name, queue)
        if not applied.definition:
            return own
        return overlaid_by_policy(own, applied.definition, applied.bounds)

    def _set_alternate(self, vhost: VirtualHost, exchange: Exchange) -> None:
        """An alternate exchange of the exchange's own beats that of the policy."""
        alternate = exchange.arguments.get(ALTERNATE_EXCHANGE)
        if alternate is None:
            alternate = self.of_exchange(vhost.name, exchange).definition.get(ALTERNATE_EXCHANGE)
        if isinstance(alternate, str | None) and exchange.alternate_exchange != alternate:
            exchange.alternate_exchange = alternate
            vhost.routing.mark_changed()

    def _report_queue(self, vhost: str, queue: str, problem: str) -> None:
        self._report(vhost, f"queue '{queue}'", problem)

    def _report(self, vhost: str, what: str, problem: str) -> None:
        self._context.report(events.POLICY_NOT_APPLIED, what=what, problem=problem, vhost=vhost)


def matches_in_time(policy: Policy, name: str) -> bool:
    """Whether the policy's pattern is found in the name, as it is where the policy is applied."""
    try:
        return policy.matches(name)
    except TimeoutError:
        return False


def _type_of(queue: Queue) -> str:
    given = queue.arguments.get("x-queue-type")
    return given if isinstance(given, str) else DEFAULT_QUEUE_TYPE


def _apply_to_of(apply_to: object, *, is_operator: bool) -> str:
    known = [each for each in APPLY_TO if not (is_operator and each == "exchanges")]
    if apply_to is None:
        return "all"
    if not isinstance(apply_to, str) or apply_to not in known:
        shown = ", ".join(f"'{each}'" for each in known)
        raise invalid(f"apply-to '{apply_to}' unrecognised; should be one of {shown}")
    return apply_to


def _pattern_of(pattern: object) -> str:
    if not isinstance(pattern, str):
        raise invalid(f"pattern should be a binary but was {term(pattern)}")
    if not is_unicode(pattern):
        raise invalid("pattern should be regular expression but is not Unicode")
    try:
        check_pattern(pattern)
    except ValueError as problem:
        raise invalid(f"pattern should be regular expression but {problem}") from None
    return pattern


def _priority_of(priority: object) -> int:
    if priority is None:
        return 0
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise invalid(f"priority should be a number, actually was {term(priority)}")
    if not -_PRIORITY_MAX <= priority < _PRIORITY_MAX:
        raise bad_request(f"priority {priority} has more than 32 bits")
    return priority
