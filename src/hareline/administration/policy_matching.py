"""Which policies of a virtual host concern a name: found once, remembered until they change.

``administration.policies`` has one ``VhostPolicies`` for each virtual host with policies. As in
RabbitMQ one policy and one operator policy concern an object: those with the highest priority among
the ones that match its name and that its type can follow.

A pattern that takes too long for a name does not match that name, and stays in force for all
others; the policy remembers such names for those who look at it, and ``report`` hears of it.

Invariant: what is found follows from the policies alone. For a name, finding it takes no more than
``NAME_S`` and one search for each of the two kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import thread_time
from typing import Any, Final

from hareline.administration.policy_keys import KEYS, smaller
from hareline.patterns import MATCH_S, Pattern
from hareline.storage.administration import PolicyRecord

NAME_S: Final = 0.02  # of processor time for one name, all policies together
REMEMBERED_MAX: Final = 16_384  # names; all are forgotten when there are more
SLOW_NAMES_MAX: Final = 10  # that a policy remembers and reports

_QUEUE_TYPES: Final = {
    "classic": "classic_queues",
    "quorum": "quorum_queues",
    "stream": "streams",
}

#: Told of policies that are not applied: what, and why.
ReportProblem = Callable[[str, str], None]


@dataclass(slots=True)
class Policy:
    """A policy as it is kept, ready to match.

    ``slow_names``: the first names for which its pattern took too long; ``slow_count``: of how
    many.
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
        """True if it concerns exchanges."""
        return self.record.apply_to in ("all", "exchanges") and not self.record.is_operator

    def matches(self, name: str) -> bool:
        """True if its pattern is found in the name. Raises TimeoutError."""
        return self._pattern.is_in(name)

    def note_slow(self, name: str) -> None:
        """Its pattern has taken too long for this name."""
        self.slow_count += 1
        if len(self.slow_names) < SLOW_NAMES_MAX:
            self.slow_names.append(name)


@dataclass(frozen=True, slots=True)
class Applied:
    """The policies that concern an object; None: no such policy.

    ``definition``: what both come to, before the object's own arguments.
    """

    policy: PolicyRecord | None = None
    operator_policy: PolicyRecord | None = None
    definition: Mapping[str, Any] = field(default_factory=dict)

    @property
    def bounds(self) -> frozenset[str]:
        """The keys that the operator policy sets."""
        return frozenset(() if self.operator_policy is None else self.operator_policy.definition)


NONE_APPLIED: Final = Applied()


class VhostPolicies:
    """``report``: told what is not applied. ``used_s``: the processor time used so far, so that a
    busy machine costs no policy."""

    __slots__ = ("_by_name", "_by_pair", "_by_priority", "_remembered", "_report", "_used_s")

    def __init__(self, report: ReportProblem, used_s: Callable[[], float] = thread_time) -> None:
        self._report = report
        self._used_s = used_s
        self._by_name: dict[tuple[bool, str], Policy] = {}
        self._by_priority: dict[bool, list[Policy]] = {}
        self._remembered: dict[tuple[str | None, str], Applied] = {}  # None: an exchange
        self._by_pair: dict[tuple[str | None, str | None], Applied] = {}

    def place(self, policy: Policy) -> None:
        """The policy is in force, in the place of another of its name."""
        self._by_name[policy.record.is_operator, policy.record.name] = policy
        self._forget()

    def remove(self, name: str, *, is_operator: bool) -> None:
        """The policy is not in force any more."""
        del self._by_name[is_operator, name]
        self._forget()

    def lookup(self, name: str, *, is_operator: bool) -> Policy | None:
        """The policy of this name."""
        return self._by_name.get((is_operator, name))

    def all(self, *, is_operator: bool) -> list[Policy]:
        """The policies, or the operator policies."""
        return [each for (kind, _), each in self._by_name.items() if kind == is_operator]

    def __len__(self) -> int:
        return len(self._by_name)

    def of_queue(self, name: str, queue_type: str) -> Applied:
        """What concerns a queue of this name and type."""
        return self._applied(queue_type, name)

    def of_exchange(self, name: str) -> Applied:
        """What concerns an exchange of this name."""
        return self._applied(None, name)

    def _forget(self) -> None:
        self._by_priority.clear()
        self._remembered.clear()
        self._by_pair.clear()

    def _applied(self, queue_type: str | None, name: str) -> Applied:
        remembered = self._remembered
        applied = remembered.get((queue_type, name))
        if applied is None:
            if len(remembered) >= REMEMBERED_MAX:
                remembered.clear()
            # each kind has its own time, so that no policy keeps an operator's from its queues
            applied = remembered[queue_type, name] = self._together(
                self._first(queue_type, name, is_operator=False),
                self._first(queue_type, name, is_operator=True),
            )
        return applied

    def _first(
        self, queue_type: str | None, name: str, *, is_operator: bool
    ) -> PolicyRecord | None:
        """The policy of the highest priority that concerns an object of this name and type."""
        until_s = self._used_s() + NAME_S
        for policy in self._candidates(queue_type, is_operator=is_operator):
            try:
                if policy.matches(name):
                    return policy.record
            except TimeoutError:
                policy.note_slow(name)
                self._report_slow(policy, name)
            if self._used_s() > until_s:
                self._report(
                    f"policies of priority {policy.record.priority} and lower",
                    f"patterns took {NAME_S * 1000:.0f} ms for '{name}', so those behind "
                    f"'{policy.record.name}' were not looked at",
                )
                return None
        return None

    def _candidates(self, queue_type: str | None, *, is_operator: bool) -> Iterator[Policy]:
        for policy in self._in_order(is_operator):
            is_meant = policy.is_for_exchanges
            if queue_type is not None:
                is_meant = policy.is_for_queues(queue_type)
            if is_meant:
                yield policy

    def _in_order(self, is_operator: bool) -> list[Policy]:
        found = self._by_priority.get(is_operator)
        if found is None:
            found = self._by_priority[is_operator] = sorted(
                self.all(is_operator=is_operator),
                key=lambda policy: (-policy.record.priority, policy.record.name),
            )
        return found

    def _together(self, policy: PolicyRecord | None, operator: PolicyRecord | None) -> Applied:
        if policy is None and operator is None:
            return NONE_APPLIED
        pair = (
            None if policy is None else policy.name,
            None if operator is None else operator.name,
        )
        applied = self._by_pair.get(pair)
        if applied is None:
            definition = dict(policy.definition) if policy is not None else {}
            if operator is not None:
                for name, value in operator.definition.items():
                    is_both = KEYS[name].is_limit and name in definition
                    definition[name] = smaller(value, definition[name]) if is_both else value
            applied = self._by_pair[pair] = Applied(policy, operator, definition)
        return applied

    def _report_slow(self, policy: Policy, name: str) -> None:
        if policy.slow_count > SLOW_NAMES_MAX:
            return
        problem = f"its pattern takes more than {MATCH_S * 1000:.0f} ms for '{name}'"
        if policy.slow_count == SLOW_NAMES_MAX:
            problem += "; further names are not reported"
        self._report(f"policy '{policy.record.name}'", problem)
