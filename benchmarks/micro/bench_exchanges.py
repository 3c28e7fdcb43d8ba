"""Cost of a match in each exchange type, as the number of bindings grows.

    python -m benchmarks.micro.bench_exchanges [--json FILE] [--repetitions N]

The vhost pays this on every miss of a route cache, and for headers, x-jms-topic, random and (with
hash-header or hash-property) consistent-hash exchanges on every message.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.micro.timing import finish, measure
from hareline.broker.exchange_types import create_exchange
from hareline.broker.exchanges.exchange import Arguments, Exchange
from hareline.message import Address, Message
from hareline.wire.properties import Properties, encode_properties
from hareline.wire.table import Table

MATCHES = 20_000


class Place:
    """A destination that does nothing."""

    def __init__(self, name: str) -> None:
        self.name = name


def main() -> None:
    bench_direct()
    bench_fanout()
    bench_topic()
    bench_headers()
    bench_jms_topic()
    bench_hash_and_random()
    finish()


def bench_direct() -> None:
    for bindings in (10, 10_000):
        exchange = create_exchange("direct", "bench")
        for number in range(bindings):
            exchange.bind(Place(f"q{number}"), f"key.{number}", {})
        measure_match(f"direct, {bindings:,} bindings, 1 matches", exchange, ["key.7"])
        measure_match(f"direct, {bindings:,} bindings, none matches", exchange, ["x"], expected=0)


def bench_fanout() -> None:
    exchange = create_exchange("fanout", "bench")
    for number in range(10):
        exchange.bind(Place(f"q{number}"), "", {})
    measure_match("fanout to 10", exchange, ["any"], expected=10)


def bench_topic() -> None:
    for bindings in (10, 1_000, 10_000):
        exchange = create_exchange("topic", "bench")
        for number in range(bindings):
            exchange.bind(Place(f"q{number}"), f"stock.*.item{number}.#", {})
        keys = [f"stock.berlin.item{number}.sold" for number in range(10)]
        measure_match(f"topic, {bindings:,} patterns with * and #, 1 matches", exchange, keys)
        measure_match(
            f"topic, {bindings:,} patterns with * and #, none matches",
            exchange,
            ["stock.berlin.thing.sold"],
            expected=0,
        )

    exchange = create_exchange("topic", "bench")
    for number in range(10_000):
        exchange.bind(Place(f"q{number}"), f"stock.berlin.item{number}", {})
    measure_match("topic, 10,000 patterns without wildcard", exchange, ["stock.berlin.item7"])

    exchange = create_exchange("topic", "bench")
    for number in range(10_000):
        exchange.bind(Place(f"q{number}"), f"#.item{number}", {})
    exchange.bind(Place("all"), "#", {})
    key = "a.b.c.d.e.item7"
    measure_match("topic, 10,000 patterns that begin with #, 2 match", exchange, [key], expected=2)

    exchange = create_exchange("topic", "bench")
    exchange.bind(Place("q"), "#.a." * 16 + "b", {})
    key = ".".join(["a"] * 128)
    measure_match(
        "topic, worst case: 1 pattern with 16 #, 128 words", exchange, [key], 100, expected=0
    )


def bench_headers() -> None:
    message = make_message(Table(format="pdf", kind="report", number=7, lang="de"))
    for bindings in (10, 1_000):
        exchange = create_exchange("headers", "bench")
        for number in range(bindings):
            conditions: Arguments = {"format": "pdf", "kind": "report", "number": number}
            exchange.bind(Place(f"q{number}"), "", conditions)
        measure_match(
            f"headers, {bindings:,} bindings x-match all, 1 matches",
            exchange,
            [""],
            message=message,
        )
    for bindings in (10, 1_000):
        exchange = create_exchange("headers", "bench")
        for number in range(bindings):
            conditions = {"x-match": "any", "number": number, "other": "x"}
            exchange.bind(Place(f"q{number}"), "", conditions)
        measure_match(
            f"headers, {bindings:,} bindings x-match any, 1 matches",
            exchange,
            [""],
            message=message,
        )


def bench_jms_topic() -> None:
    """The conditions differ, or are all the same; the headers are decoded already, as they are for
    all bindings but the first."""
    headers = Table(JMSPriority=4, kind="report", number=7)
    for bindings in (1, 100):
        exchange = create_exchange("x-jms-topic", "bench")
        for number in range(bindings):
            term = (
                "{'and',{'=',{'ident',<<\"kind\">>},<<\"report\">>},"
                f"{{'=',{{'ident',<<\"number\">>}},{7 + number}}}}}."
            )
            exchange.bind(Place(f"q{number}"), "T", {"rjms_erlang_selector": term})
        measure_match(
            f"x-jms-topic, {bindings} conditions, 1 matches",
            exchange,
            ["T"],
            MATCHES // bindings,
            message=make_message(headers),
        )
    exchange = create_exchange("x-jms-topic", "bench")
    for number in range(100):
        term = "{'>',{'ident',<<\"JMSPriority\">>},3}"
        exchange.bind(Place(f"q{number}"), "T", {"rjms_erlang_selector": term})
    measure_match(
        "x-jms-topic, 100 bindings of 1 condition, all match",
        exchange,
        ["T"],
        message=make_message(headers),
        expected=100,
    )


def bench_hash_and_random() -> None:
    exchange = create_exchange("x-consistent-hash", "bench")
    for number in range(10):
        exchange.bind(Place(f"q{number}"), "1", {})
    measure_match("x-consistent-hash, 10 bindings, routing key", exchange, ["user-4711"])
    exchange = create_exchange("x-consistent-hash", "bench", arguments={"hash-header": "user"})
    for number in range(10):
        exchange.bind(Place(f"q{number}"), "1", {})
    message = make_message(Table(user="user-4711"))
    measure_match("x-consistent-hash, 10 bindings, header", exchange, [""], message=message)
    exchange = create_exchange("x-random", "bench")
    for number in range(10):
        exchange.bind(Place(f"q{number}"), "", {})
    measure_match("x-random, 10 bindings", exchange, [""])


def make_message(headers: Table | None = None) -> Message:
    """A message whose properties are decoded already, as they are after the first look."""
    properties = encode_properties(Properties(headers=headers))
    content = b"\0" * 19 + properties + b"\xce"
    message = Message(Address("bench", "", b""), content, len(content), 0, 1, 0)
    assert message.headers == (headers or {})
    return message


def measure_match(
    name: str,
    exchange: Exchange,
    keys: list[str],
    matches: int = MATCHES,
    *,
    message: Message | None = None,
    expected: int = 1,
) -> None:
    """Match each of the keys in turn; the results are gone through, as the vhost does."""
    subject = make_message() if message is None else message
    for key in keys:
        assert len(list(exchange.match(key, subject))) == expected, name
    rounds = matches // len(keys)
    measure(name, _match_loop(exchange, keys, subject, rounds), rounds * len(keys), "match")


def _match_loop(
    exchange: Exchange, keys: list[str], message: Message, rounds: int
) -> Callable[[], object]:
    def loop() -> None:
        match = exchange.match
        for _ in range(rounds):
            for key in keys:
                for _destination in match(key, message):
                    pass

    return loop


if __name__ == "__main__":
    main()
