"""Policies: arguments for all queues and exchanges whose names match a pattern.

As in RabbitMQ one policy and one operator policy concern an object: of those that match its name,
and that its type can follow, the one with the highest priority. One that says ``merge`` lets the
next one set what it does not. A change is put in force in shares of the next turns. ``policy_keys``
says what a policy makes of the arguments of a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import thread_time
from typing import Final, NamedTuple, Required, TypedDict, Unpack

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
from hareline.administration.policy_keys import (
    KEYS,
    MERGE,
    NONE_APPLIED,
    Applied,
    check_definition,
    merged,
    overlaid_by_policy,
    smaller,
)
from hareline.amqp.context import Context
from hareline.broker.auto_creation import QUEUES_KEY, TOPICS_KEY
from hareline.broker.exchanges.alternate import ALTERNATE_EXCHANGE
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.vhost import VirtualHost
from hareline.errors import PreconditionFailed
from hareline.later import Job
from hareline.patterns import MATCH_S, Pattern, check_pattern
from hareline.queues.declare.table import DEFAULT_QUEUE_TYPE
from hareline.queues.queue import Queue
from hareline.storage.administration import PolicyRecord

APPLY_TO: Final = ("all", "exchanges", "queues", "classic_queues", "quorum_queues", "streams")
RETRY_S: Final = 10.0  # until queues that could not follow are looked at again
NAME_S: Final = 0.02  # of processor time for one name, all policies together
REMEMBERED_MAX: Final = 16_384  # names; all are forgotten when there are more
SLOW_NAMES_MAX: Final = 10  # that a policy remembers and reports
_PRIORITY_MAX: Final = 1 << 31
_QUEUE_TYPES: Final = {
    "classic": "classic_queues",
    "quorum": "quorum_queues",
    "stream": "streams",
}


@dataclass(slots=True)
class Policy:
    """A policy, ready to match.

    A pattern that takes too long for a name does not match it. ``slow_names``: the first such
    names; ``slow_count``: how many there are.
    """

    record: PolicyRecord
    slow_names: list[str] = field(default_factory=list)
    slow_count: int = 0
    _pattern: Pattern = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Raises ValueError for a pattern that is not a regular expression."""
        self._pattern = Pattern(self.record.pattern)

    def is_for_queues(self, queue_type: str) -> bool:
        """True if it concerns queues of this type, and they know all that it sets."""
        record = self.record
        if record.apply_to not in ("all", "queues", _QUEUE_TYPES[queue_type]):
            return False
        arguments = (KEYS[key].argument for key in record.definition)
        return all(each is None or queue_type in each.queue_types for each in arguments)

    @property
    def is_for_exchanges(self) -> bool:
        return self.record.apply_to in ("all", "exchanges") and not self.record.is_operator

    def matches(self, name: str) -> bool:
        """True if its pattern is found in the name. Raises TimeoutError."""
        return self._pattern.is_in(name)

    def matches_in_time(self, name: str) -> bool:
        """As ``matches``; False for a name that takes too long, as where the policy is applied."""
        try:
            return self.matches(name)
        except TimeoutError:
            return False


class VhostPolicies:
    """Policies of a virtual host. What concerns a name is found once, until they change.

    ``report``: told what is not applied, and why. ``used_s``: the processor time used so far, so
    that a busy machine costs no policy.
    """

    __slots__ = ("_by_both", "_by_name", "_by_priority", "_remembered", "_report", "_used_s")

    def __init__(
        self, report: Callable[[str, str], None], used_s: Callable[[], float] = thread_time
    ) -> None:
        self._report = report
        self._used_s = used_s
        self._by_name: dict[tuple[bool, str], Policy] = {}
        self._by_priority: dict[bool, list[Policy]] = {}
        self._remembered: dict[tuple[str | None, str], Applied] = {}  # None: an exchange
        self._by_both: dict[tuple[tuple[str, ...], tuple[str, ...]], Applied] = {}

    def place(self, policy: Policy) -> None:
        """Put a policy in force, in the place of another of its name."""
        self._by_name[policy.record.is_operator, policy.record.name] = policy
        self._forget()

    def trial(self, policy: Policy) -> VhostPolicies:
        """These policies with one more, or in place of another; they report nothing."""
        trial = VhostPolicies(lambda _what, _problem: None, self._used_s)
        for each in self._by_name.values():
            trial.place(Policy(each.record))
        trial.place(policy)
        return trial

    def remove(self, name: str, *, is_operator: bool) -> None:
        del self._by_name[is_operator, name]
        self._forget()

    def lookup(self, name: str, *, is_operator: bool) -> Policy | None:
        return self._by_name.get((is_operator, name))

    def all(self, *, is_operator: bool) -> list[Policy]:
        return [each for (kind, _), each in self._by_name.items() if kind == is_operator]

    def set_one_of(self, *keys: str) -> bool:
        """True if some policy has one of these keys."""
        return any(key in each.record.definition for each in self._by_name.values() for key in keys)

    def __len__(self) -> int:
        return len(self._by_name)

    def _forget(self) -> None:
        self._by_priority.clear()
        self._remembered.clear()
        self._by_both.clear()

    def applied(self, name: str, queue_type: str | None) -> Applied:
        """The policies that concern a queue of this type, or an exchange (None)."""
        remembered = self._remembered
        applied = remembered.get((queue_type, name))
        if applied is None:
            if len(remembered) >= REMEMBERED_MAX:
                remembered.clear()
                self._by_both.clear()
            # each kind has its own time, so that no policy keeps an operator's from its queues
            applied = remembered[queue_type, name] = self._together(
                self._found(queue_type, name, is_operator=False),
                self._found(queue_type, name, is_operator=True),
            )
        return applied

    def _found(
        self, queue_type: str | None, name: str, *, is_operator: bool
    ) -> tuple[PolicyRecord, ...]:
        """The policy of the highest priority that concerns an object of this name and type.

        Behind it those that are merged with it.
        """
        until_s = self._used_s() + NAME_S
        found: list[PolicyRecord] = []
        for policy in self._in_order(is_operator):
            is_for_it = policy.is_for_queues(queue_type) if queue_type else policy.is_for_exchanges
            if not is_for_it:
                continue
            try:
                if policy.matches(name):
                    found.append(policy.record)
                    if not policy.record.definition.get(MERGE):
                        break
            except TimeoutError:
                self._note_slow(policy, name)
            if self._used_s() > until_s:
                self._report(
                    f"policies of priority {policy.record.priority} and lower",
                    f"patterns took {NAME_S * 1000:.0f} ms for '{name}', so those behind "
                    f"'{policy.record.name}' were not looked at",
                )
                break
        return tuple(found)

    def _in_order(self, is_operator: bool) -> list[Policy]:
        found = self._by_priority.get(is_operator)
        if found is None:
            found = self._by_priority[is_operator] = sorted(
                self.all(is_operator=is_operator),
                key=lambda policy: (-policy.record.priority, policy.record.name),
            )
        return found

    def _together(
        self, policies: tuple[PolicyRecord, ...], operators: tuple[PolicyRecord, ...]
    ) -> Applied:
        if not policies and not operators:
            return NONE_APPLIED
        both = (tuple(each.name for each in policies), tuple(each.name for each in operators))
        applied = self._by_both.get(both)
        if applied is None:
            definition = merged(policies)
            for name, value in merged(operators).items():
                is_both = KEYS[name].is_limit and name in definition
                definition[name] = smaller(value, definition[name]) if is_both else value
            applied = self._by_both[both] = Applied(policies, operators, definition)
        return applied

    def _note_slow(self, policy: Policy, name: str) -> None:
        policy.slow_count += 1
        if policy.slow_count > SLOW_NAMES_MAX:
            return
        problem = f"its pattern takes more than {MATCH_S * 1000:.0f} ms for '{name}'"
        policy.slow_names.append(name)
        if policy.slow_count == SLOW_NAMES_MAX:
            problem += "; further names are not reported"
        self._report(f"policy '{policy.record.name}'", problem)


def policies_by_vhost(
    records: Iterable[PolicyRecord], report: Callable[[str, str, str], None]
) -> dict[str, VhostPolicies]:
    """Policies as they are stored. ``report``: told vhost, policy and problem of one that cannot be
    in force."""
    found: dict[str, VhostPolicies] = {}
    for record in records:
        vhost = record.vhost
        policies = found.get(vhost)
        if policies is None:
            policies = found[vhost] = VhostPolicies(partial(report, vhost))
        try:
            policies.place(Policy(record))
        except ValueError as error:  # a later version of ``regex`` is stricter
            reason = f"pattern should be regular expression but is invalid: {error}"
            report(vhost, f"policy '{record.name}'", reason)
    return found


class _Refresh(Job):
    """Policies put in force for these exchanges and queues of a virtual host; None: for all.

    ``refresh`` has one follow.
    """

    __slots__ = ("_context", "_is_over", "_refresh", "_vhost", "_waiting")

    def __init__(
        self,
        vhost: VirtualHost,
        context: Context,
        refresh: Callable[[VirtualHost, Exchange | Queue], None],
        concerned: Iterable[Queue] | None = None,
    ) -> None:
        self._vhost = vhost
        self._context = context
        self._refresh = refresh
        self._waiting: dict[Exchange | Queue, None] = dict.fromkeys(concerned or ())
        self._is_over = False
        if concerned is None:
            self.begin_again()

    def goes_on_for(self, vhost: VirtualHost) -> bool:
        return not self._is_over and self._vhost is vhost

    def begin_again(self) -> None:
        """Policies have changed: all have to follow again, those first that waited already."""
        vhost = self._vhost
        self._waiting.update(dict.fromkeys(vhost.exchanges.values()))
        self._waiting.update(dict.fromkeys(vhost.queues.values()))

    def run(self, until_s: float) -> bool:
        self._is_over = True  # also by an error that nothing here expects
        context, vhost, waiting = self._context, self._vhost, self._waiting
        while waiting and context.vhosts.get(vhost.name) is vhost:
            first = next(iter(waiting))
            del waiting[first]
            self._refresh(vhost, first)
            if context.clock.running_s() >= until_s:
                break
        else:
            return True
        self._is_over = not waiting
        return self._is_over


class Effect(NamedTuple):
    """The change a policy would make to a queue: its policies before, and the arguments changed.

    ``changes``: value before and after, None for not set. ``problem``: why the queue could not
    follow, at least in one argument, which would stay as it is.
    """

    applied: Applied
    changes: Mapping[str, tuple[object, object]]
    problem: str | None = None


class PolicyValues(TypedDict, total=False):
    """The values of a policy as they were sent, not checked yet. ``priority``: 0 if left out.

    ``apply_to``: "all" if left out.
    """

    pattern: Required[object]
    definition: Required[object]
    priority: object
    apply_to: object


class Policies:
    """Policies of all virtual hosts; ``live_arguments`` of each asks what is in force."""

    def __init__(self, context: Context, changes: Changes) -> None:
        self._context = context
        self._changes = changes
        self._by_vhost = policies_by_vhost(changes.store.records(PolicyRecord), self._report)
        self._refreshing: dict[str, _Refresh] = {}
        # queues that could not follow, by virtual host; the value says that this was reported
        self._unable: dict[str, dict[Queue, bool]] = {}
        self._is_retrying = False

    def _of(self, vhost: str) -> VhostPolicies:
        policies = self._by_vhost.get(vhost)
        if policies is None:
            policies = self._by_vhost[vhost] = VhostPolicies(partial(self._report, vhost))
        return policies

    # -------------------------------------------------------------------------- what there is

    def all(self, *, is_operator: bool) -> Iterator[PolicyRecord]:
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
        is_operator: bool = False,
        **given: Unpack[PolicyValues],
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
                _pattern_of(given["pattern"]),
                _apply_to_of(given.get("apply_to", "all"), is_operator=is_operator),
                _priority_of(given.get("priority", 0)),
                check_definition(given["definition"], is_operator=is_operator),
            )
        )

    def put(
        self,
        vhost: str,
        name: str,
        *,
        is_operator: bool = False,
        by: str = INTERNAL,
        **given: Unpack[PolicyValues],
    ) -> bool:
        """Make or change a policy; True if it was made. Raises AdministrationError."""
        policy = self.prepared(vhost, name, is_operator=is_operator, **given)
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
        self._by_vhost.pop(vhost, None)
        self._unable.pop(vhost, None)

    # ------------------------------------------------------------------------ what is in force

    def of_queue(self, vhost: str, queue: Queue) -> Applied:
        """The policies that concern a queue; none if the broker keeps it for itself."""
        policies = self._by_vhost.get(vhost)
        if not policies or self._is_the_brokers(vhost, queue):
            return NONE_APPLIED
        return policies.applied(queue.name, type_of(queue.arguments))

    def would_concern(self, policy: Policy, queue: Queue) -> bool:
        """True if this policy, in force or not, can be that of the queue."""
        if self._is_the_brokers(policy.record.vhost, queue):
            return False
        return policy.is_for_queues(type_of(queue.arguments)) and policy.matches_in_time(queue.name)

    def preview(self, policy: Policy) -> Callable[[Queue], Effect]:
        """Tells of a queue that a policy would concern what it would do, if it were set."""
        vhost = self._context.vhosts[policy.record.vhost]
        trial, live = self._of(vhost.name).trial(policy), vhost.live_arguments

        def effect_on(queue: Queue) -> Effect:
            applied = trial.applied(queue.name, type_of(queue.arguments))
            before = live.in_force(queue).raw
            after = overlaid_by_policy(live.own(queue), applied.definition, applied.bounds)
            changes = {
                name: (before.get(name), after.get(name))
                for name in {**before, **after}
                if before.get(name) != after.get(name)
            }
            try:
                live.checked(queue, after)
            except PreconditionFailed as error:
                return Effect(applied, changes, error.explanation)
            return Effect(applied, changes)

        return effect_on

    def _is_the_brokers(self, vhost: str, queue: Queue) -> bool:
        """True if it holds delayed messages of an exchange, or the audit."""
        if isinstance(queue.owner, Exchange):
            return True
        return queue.name == self._context.vhosts[vhost].routing.closed_queue

    def of_exchange(self, vhost: str, exchange: Exchange) -> Applied:
        policies = self._by_vhost.get(vhost)
        if not exchange.name or not policies:
            return NONE_APPLIED
        return policies.applied(exchange.name, None)

    def _of_name(self, vhost: str, name: str, queue_type: str | None) -> Mapping[str, object]:
        """Keys for a queue of this type, or an exchange (None), that need not exist."""
        policies = self._by_vhost.get(vhost)
        return policies.applied(name, queue_type).definition if policies else {}

    def attach(self, vhost: VirtualHost) -> None:
        """Have queues and exchanges of this virtual host follow the policies from now on."""
        vhost.live_arguments.overlay = partial(self._overlay, vhost.name)
        vhost.auto_creation.policy = partial(self._of_name, vhost.name)
        vhost.follow(partial(self._on_queue_added, vhost), partial(self._set_alternate, vhost))
        if self._by_vhost.get(vhost.name):
            self.refresh(vhost.name)

    def refresh(self, vhost_name: str) -> None:
        """Put in force what follows now: a first share at once, the rest in the next turns."""
        context = self._context
        vhost = context.vhosts[vhost_name]
        self._unable.pop(vhost_name, None)  # to be reported again
        policies = self._by_vhost.get(vhost_name)
        vhost.auto_creation.has_policies = policies is not None and policies.set_one_of(
            QUEUES_KEY, TOPICS_KEY
        )
        vhost.routing.mark_changed()  # a publish may make its queue now
        running = self._refreshing.get(vhost_name)
        if running is not None and running.goes_on_for(vhost):
            running.begin_again()
            return
        refresh = _Refresh(vhost, context, self._follow)
        if not context.shares.start(refresh):
            self._refreshing[vhost_name] = refresh

    def _on_queue_added(self, vhost: VirtualHost, queue: Queue) -> None:
        if self.of_queue(vhost.name, queue).definition:
            self._follow(vhost, queue)

    def _follow(self, vhost: VirtualHost, found: Exchange | Queue) -> None:
        """Put in force what policies say of this one; a queue that cannot follow is reported."""
        if isinstance(found, Exchange):
            if vhost.exchanges.get(found.name) is found:
                self._set_alternate(vhost, found)
            return
        unable = self._unable.setdefault(vhost.name, {})
        is_reported = unable.pop(found, False)
        if found.is_deleted:
            return
        try:
            vhost.live_arguments.refresh(found)
        except PreconditionFailed as error:
            unable[found] = True
            if not is_reported:
                self._report(vhost.name, f"queue '{found.name}'", error.explanation)
            if not self._is_retrying:
                self._is_retrying = True
                vhost.environment.timers.call_later(RETRY_S, self._retry)

    def _retry(self) -> None:
        """Have queues follow that could not, such as those that had consumers or many messages."""
        self._is_retrying = False
        context = self._context
        for name, unable in self._unable.items():
            vhost = context.vhosts.get(name)
            if vhost is not None and unable:
                context.shares.add(_Refresh(vhost, context, self._follow, unable))

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

    def _report(self, vhost: str, what: str, problem: str) -> None:
        self._context.report(events.POLICY_NOT_APPLIED, what=what, problem=problem, vhost=vhost)


def type_of(arguments: Mapping[str, object]) -> str:
    """Return classic, quorum or stream: what these arguments declare."""
    given = arguments.get("x-queue-type")
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
