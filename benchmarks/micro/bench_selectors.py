"""Cost of a selector: once when it is compiled, and for each message that it is held against.

    python -m benchmarks.micro.bench_selectors [--json FILE] [--repetitions N]

The dispatcher pays a match for each message that it offers to a consumer with a selector, an
exchange for each message that reaches a binding with one. Half of the messages match, unless the
name says otherwise. The last three lines are what the compiler was chosen by: the first selector as
closures that call each other, and two ways of asking whether a value is a number.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from benchmarks.micro.timing import finish, measure
from hareline.message import Address, Message
from hareline.selectors.selector import Selector, compile_selector
from hareline.selectors.values import IS_NUMBER
from hareline.wire.properties import Properties, encode_properties
from hareline.wire.table import SignedInt, Table

MATCHES = 50_000
COMPILATIONS = 200

IN_TEN = ", ".join([f"'city{number}'" for number in range(10)])

SELECTORS = {
    "equal and greater": "color = 'red' AND size > 3",
    "priority": "JMSPriority > 4",
    "LIKE, a beginning": "name LIKE 'order-%'",
    "LIKE, in between": "name LIKE '%-eu-%'",
    "LIKE, an expression": "name LIKE 'order-__-%-4_'",
    "IN of 10": f"city IN ({IN_TEN})",
    "BETWEEN": "size BETWEEN 4 AND 10",
    "NOT over OR": "NOT (color = 'blue' OR size < 4)",
    "arithmetic": "size * 2 + 1 > 8",
    "two properties": "size > limit",
    "three names, one missing": "color = 'red' AND region IS NULL AND size <> 1",
}


def main() -> None:
    matching = make_message(priority=7, color="red", size=SignedInt(5), city="city7", limit=4)
    other = make_message(priority=2, color="blue", size=SignedInt(2), city="town", limit=4)
    for name, text in SELECTORS.items():
        selector = compile_selector(text)
        assert selector.matches(matching), text
        assert not selector.matches(other), text
        measure(name, match_loop(selector.matches, matching, other), MATCHES, "match")
    absent = make_message(priority=None)
    matches = compile_selector(SELECTORS["equal and greater"]).matches
    measure("equal and greater, no headers", match_loop(matches, absent, absent), MATCHES, "match")
    bench_compilation()
    bench_alternatives(matching, other)
    finish()


def bench_compilation() -> None:
    text = SELECTORS["equal and greater"]
    measure("compile the same text again", compile_loop(lambda: text), COMPILATIONS, "selector")
    numbers = count()
    measure(
        "compile another text of the same shape",
        compile_loop(lambda: f"color = 'red{next(numbers)}' AND size > 3"),
        COMPILATIONS,
        "selector",
    )
    ends = count()
    measure(
        "compile a text of a new shape",
        compile_loop(lambda: f"color = 'red' AND size > 3 {new_shape(next(ends))}"),
        COMPILATIONS,
        "selector",
    )
    long = " OR ".join([f"x{number} = {number}" for number in range(500)])
    measure("compile 500 comparisons", lambda: Selector(long), 1, "selector")


def new_shape(number: int) -> str:
    """An ending that differs in its operators for each number."""
    return "".join(["AND a = 1 " if bit == "1" else "AND a < 1 " for bit in f"{number:b}"])


def bench_alternatives(matching: Message, other: Message) -> None:
    measure(
        "equal and greater, as closures",
        match_loop(as_closures(), matching, other),
        MATCHES,
        "match",
    )
    value: object = SignedInt(5)

    def by_table() -> None:
        for _ in range(MATCHES):
            IS_NUMBER[value.__class__]

    def by_isinstance() -> None:
        for _ in range(MATCHES):
            isinstance(value, (int, float)) and value.__class__ is not bool

    measure("is it a number: look-up of its class", by_table, MATCHES, "value")
    measure("is it a number: isinstance and not bool", by_isinstance, MATCHES, "value")


Evaluate = Callable[[Any], Any]


def as_closures() -> Callable[[Message], bool]:
    """``color = 'red' AND size > 3`` in the other usual way of compiling an expression."""

    def header(name: str) -> Evaluate:
        return lambda headers: headers.get(name)

    def equals(left: Evaluate, constant: object) -> Evaluate:
        return lambda headers: left(headers) == constant

    def exceeds(left: Evaluate, constant: int) -> Evaluate:
        def evaluate(headers: Any) -> bool:
            value = left(headers)
            return IS_NUMBER[value.__class__] and value > constant

        return evaluate

    def both(first: Evaluate, second: Evaluate) -> Evaluate:
        return lambda headers: first(headers) and second(headers)

    condition = both(equals(header("color"), "red"), exceeds(header("size"), 3))

    def matches(message: Message) -> bool:
        headers = message.properties.headers
        return bool(condition({} if headers is None else headers))

    return matches


def match_loop(
    matches: Callable[[Message], bool], matching: Message, other: Message
) -> Callable[[], object]:
    def loop() -> None:
        for _ in range(MATCHES // 2):
            matches(matching)
            matches(other)

    return loop


def compile_loop(text: Callable[[], str]) -> Callable[[], object]:
    def loop() -> None:
        for _ in range(COMPILATIONS):
            compile_selector(text())

    return loop


def make_message(*, priority: int | None, **headers: object) -> Message:
    """A message whose properties are decoded already, as they are after the first look."""
    if headers:
        headers["name"] = "order-17-eu-west-42" if priority == 7 else "invoice-17-us-42"
    table = Table(headers) if headers else None
    properties = encode_properties(Properties(headers=table, priority=priority))
    content = b"\0" * 19 + properties + b"\xce"
    message = Message(Address("bench", "", b""), content, len(content), 0, 1, 0)
    assert message.headers == headers
    return message


if __name__ == "__main__":
    main()
