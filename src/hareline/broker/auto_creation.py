"""Names of queues that are made when a client first uses them (docs/auto-creation.md).

The rules of one virtual host, by its settings and its policies; ``amqp.auto_creation`` makes the
queues, with the rights of the client. Off unless a pattern or a policy says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from hareline.patterns import Pattern
from hareline.queues.declare.table import DEFAULT_QUEUE_TYPE

#: The flag of policies: queues with the names that it is for are made when they are first used.
QUEUES_KEY: Final = "auto-create-queues"
#: The flag of policies: exchanges with the names that it is for are virtual topics.
TOPICS_KEY: Final = "virtual-topics"

_CONSUMER: Final = "Consumer"  # the first word of a name as ActiveMQ has it


def _no_policy(_name: str, _queue_type: str | None) -> Mapping[str, Any]:
    return {}


class AutoCreation:
    """``policy``: a name, and a queue type or None for exchanges -> what policies set for it.

    ``has_policies``: some policy sets one of the keys.
    """

    def __init__(self) -> None:
        self.has_policies = False
        self.policy: Callable[[str, str | None], Mapping[str, Any]] = _no_policy
        self._queues: tuple[Pattern, ...] = ()
        self._topics: tuple[Pattern, ...] = ()

    def set_patterns(self, queues: Iterable[str], topics: Iterable[str] = ()) -> None:
        """Make queues with such names, and those of consumers of virtual topics with such names.

        Regular expressions; one that is found anywhere in a name counts.
        """
        self._queues = tuple(map(Pattern, queues))
        self._topics = tuple(map(Pattern, topics))

    @property
    def is_on(self) -> bool:
        """False if every queue has to be declared."""
        return self.has_policies or bool(self._queues or self._topics)

    def makes_queue(self, name: str, queue_type: str) -> bool:
        """True if a queue of this name is made when a client uses it and it does not exist.

        ``queue_type``: the virtual host's default; empty: classic.
        """
        if not name or name.startswith("amq."):
            return False
        return _is_in_one(self._queues, name) or bool(
            self.policy(name, queue_type or DEFAULT_QUEUE_TYPE).get(QUEUES_KEY)
        )

    def topic_of(self, queue: str) -> str | None:
        """The virtual topic whose messages a queue of this name gets; None for most names.

        The queue is called ``Consumer.GROUP.TOPIC``, and the topic is an exchange.
        """
        word, _, rest = queue.partition(".")
        group, _, topic = rest.partition(".")
        if word != _CONSUMER or not group or not topic:
            return None
        is_topic = _is_in_one(self._topics, topic) or bool(self.policy(topic, None).get(TOPICS_KEY))
        return topic if is_topic else None


def _is_in_one(patterns: Iterable[Pattern], name: str) -> bool:
    """True if one of these is found in the name; one that takes too long is not."""
    for pattern in patterns:
        try:
            if pattern.is_in(name):
                return True
        except TimeoutError:
            continue
    return False
