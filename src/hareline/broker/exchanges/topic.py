"""The topic exchange: binding keys are patterns over the words of a routing key.

AMQP 0-9-1 section 3.1.3.3: dots separate words, ``*`` is one word, ``#`` is zero or more. As
in RabbitMQ the empty key has no word at all (``#`` matches it, ``*`` does not), while any other
key has one word more than dots, and words may be empty: ``a.`` has two. Called by
``broker.routing``.                                                                  [hot: match]

Patterns without a wildcard are one dictionary lookup. The others form a trie, one level per word,
and a match walks all their paths at once, word by word, as a set of nodes. A node is in that set
at most once per word: every node has one parent, and a ``#`` node, which stays once it is reached,
is added only once (``reached_in``). So a match costs words x live nodes, never a power of the
number of ``#``; patterns that differ from the key early cost nothing.

Measured with ``benchmarks/micro/bench_exchanges.py``: about 1 us with 10 patterns as with 10,000
when one matches. A cache of whole matches here was tried and left out: it made a repeated
key 1.0 -> 0.07 us and a new one 0.75 -> 0.95 us, but connections have route caches, so a
connection would save the microsecond only on its first message with a key.

Invariant: a node other than the root has destinations or children; ``_patterns`` counts bindings.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from hareline.broker.exchanges.destinations import DestinationSet
from hareline.broker.exchanges.exchange import Arguments, Destination, Exchange, Headers
from hareline.errors import PreconditionFailed

ONE_WORD: Final = "*"
ANY_WORDS: Final = "#"

# In one pattern, "#.#" counted as one "#". Each may stay live for the rest of a key, so this bounds
# the cost of one binding for a message: 16 of them and the 128 words a key can have are 0.2 ms.
# RabbitMQ 3.10 has no limit, its newest versions accept 2.
ANY_WORDS_MAX: Final = 16


class _Node:
    """A place in the trie; ``destinations`` are bound with the pattern that ends here."""

    __slots__ = ("any_words", "children", "destinations", "one_word", "reached_in")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}  # by word
        self.one_word: _Node | None = None  # behind "*"
        self.any_words: _Node | None = None  # behind "#"
        self.destinations = DestinationSet()
        self.reached_in = 0  # "#" nodes: number of the match that came here last

    def child(self, word: str) -> _Node | None:
        if word == ONE_WORD:
            return self.one_word
        if word == ANY_WORDS:
            return self.any_words
        return self.children.get(word)

    def add_child(self, word: str) -> _Node:
        node = _Node()
        if word == ONE_WORD:
            self.one_word = node
        elif word == ANY_WORDS:
            self.any_words = node
        else:
            self.children[word] = node
        return node

    def drop_child(self, word: str) -> None:
        if word == ONE_WORD:
            self.one_word = None
        elif word == ANY_WORDS:
            self.any_words = None
        else:
            del self.children[word]

    def leads_on(self) -> bool:
        """True if a pattern continues after this node."""
        return bool(self.children) or self.one_word is not None or self.any_words is not None


class TopicExchange(Exchange):
    """``_literals``: patterns without a wildcard, ``_root``: the trie of the others."""

    type_name: ClassVar[str] = "topic"

    __slots__ = ("_literals", "_match_number", "_patterns", "_root")

    def _begin(self) -> None:
        self._literals: dict[str, DestinationSet] = {}
        self._root = _Node()
        self._patterns = 0
        self._match_number = 0

    def match(self, routing_key: str, message: Headers) -> Iterable[Destination]:
        literal = self._literals.get(routing_key)
        if self._patterns == 0:
            return () if literal is None else literal.members()
        found: list[Destination] = []
        if literal is not None:
            found.extend(literal.members())
        self._search(routing_key.split(".") if routing_key else [], found)
        return found

    def _search(self, words: list[str], found: list[Destination]) -> None:
        """Append the destinations of all patterns with wildcards that match these words."""
        self._match_number += 1
        reached: list[_Node] = [self._root]  # by exactly the words so far
        staying: list[_Node] = []  # "#" nodes reached by now: any further words lead to them too
        if self._root.any_words is not None:
            self._enter_any_words(self._root.any_words, staying, found)
        for word in words:
            live = reached + staying if staying else reached
            reached = []
            for node in live:
                child = node.children.get(word)
                if child is not None:
                    reached.append(child)
                child = node.one_word
                if child is not None:
                    reached.append(child)
            for node in reached:
                child = node.any_words
                if child is not None:
                    self._enter_any_words(child, staying, found)
            if not reached and not staying:
                return
        for node in reached:
            if node.destinations:
                found.extend(node.destinations.members())

    def _enter_any_words(self, node: _Node, staying: list[_Node], found: list[Destination]) -> None:
        """Add a ``#`` node that was reached: its pattern matches all remaining words."""
        if node.reached_in == self._match_number:
            return
        node.reached_in = self._match_number
        if node.destinations:
            found.extend(node.destinations.members())
        if node.leads_on():
            staying.append(node)

    def bind(self, destination: Destination, routing_key: str, arguments: Arguments) -> None:
        """Raises PreconditionFailed for a pattern with more than ``ANY_WORDS_MAX`` ``#`` words."""
        words = _pattern_words(routing_key)
        if not _has_wildcard(words):
            literal = self._literals.get(routing_key)
            if literal is None:
                literal = self._literals[routing_key] = DestinationSet()
            literal.add(destination)
            return
        any_words = words.count(ANY_WORDS)
        if any_words > ANY_WORDS_MAX:
            raise PreconditionFailed(
                f"the binding key has {any_words} '#' words, at most {ANY_WORDS_MAX} are allowed:"
                f" '{routing_key}'"
            )
        node = self._root
        for word in words:
            node = node.child(word) or node.add_child(word)
        node.destinations.add(destination)
        self._patterns += 1

    def unbind(self, destination: Destination, routing_key: str, arguments: Arguments) -> None:
        words = _pattern_words(routing_key)
        if not _has_wildcard(words):
            literal = self._literals[routing_key]
            literal.remove(destination)
            if not literal:
                del self._literals[routing_key]
            return
        path = [self._root]
        for word in words:
            child = path[-1].child(word)
            if child is None:
                raise KeyError(routing_key)
            path.append(child)
        path[-1].destinations.remove(destination)
        self._patterns -= 1
        self._prune(path, words)

    def _prune(self, path: list[_Node], words: list[str]) -> None:
        """Drop the nodes at the end of ``path`` that no binding needs; ``words`` lead along it."""
        for depth in range(len(words), 0, -1):
            node = path[depth]
            if node.destinations or node.leads_on():
                return
            path[depth - 1].drop_child(words[depth - 1])


def _pattern_words(routing_key: str) -> list[str]:
    """The words of a binding key, with every ``#.#`` made the ``#`` that it means."""
    words: list[str] = []
    for word in routing_key.split("."):
        if word == ANY_WORDS and words and words[-1] == ANY_WORDS:
            continue
        words.append(word)
    return words


def _has_wildcard(words: list[str]) -> bool:
    return ONE_WORD in words or ANY_WORDS in words
