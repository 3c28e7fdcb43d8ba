"""Selectors and the conditions of ``x-jms-topic``: any text is compiled or refused, and matches.

The first octet says in which language. A match raises nothing, and what ``matches`` says is what
``evaluate`` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from hareline.selectors.error import SelectorError
from hareline.selectors.selector import ERLANG_TERMS, JMS, Selector
from hareline.wire.table import Array, SignedInt, Table, Timestamp
from tests.fuzz.target import Target
from tests.support.messages import make_message

MESSAGES: Final = (
    make_message(b"", exchange="x", routing_key="k"),
    make_message(
        b"body",
        headers=Table(
            {
                "a": 5,
                "b": "text_%",
                "c": True,
                "d": 2.5,
                "e": None,
                "f": Array([1]),
                "g": b"\xff",
                "h": SignedInt(-(2**31)),
                "i": Decimal("1.5"),
                "t": Timestamp(7),
                "big": 2**63 - 1,
                "nan": float("nan"),
                "inf": float("inf"),
                "é": "\udcff",
            }
        ),
        priority=3,
        delivery_mode=2,
        correlation_id="c",
        message_id="m",
        type="t",
        timestamp=Timestamp(1_700_000_000),
    ),
)


def run(octets: bytes) -> None:
    language = ERLANG_TERMS if octets[:1] == b"\1" else JMS
    text = octets[1:].decode("utf-8", "surrogateescape")
    try:
        selector = Selector(text, language)
    except SelectorError:
        return
    assert selector.cost >= 1
    for message in MESSAGES:
        for is_redelivered in (False, True):
            says = selector.matches(message, is_redelivered)
            assert isinstance(says, bool)
            value = selector.evaluate(message, is_redelivered)
            assert (value is True) == says, "matches and evaluate differ"


def seeds() -> Sequence[bytes]:
    selectors = (
        "a = 5 AND b LIKE 'te%' OR NOT (c = TRUE)",
        "a BETWEEN 1 AND 9 AND d > 2.4e0 AND e IS NULL",
        "b IN ('x', 'text_%') AND b NOT LIKE 'x\\_%' ESCAPE '\\'",
        "-a + 3 * (h / 2) <> 0x10 OR big >= 9223372036854775807",
        "JMSPriority = 3 AND JMSDeliveryMode = 'PERSISTENT' AND JMSType IS NOT NULL",
        "amqp.priority >= 3 /* a comment */ OR nan = inf -- the end",
        "a NOT BETWEEN 1 AND 2 AND é IS NOT NULL AND t < 1L AND i = 1.5d",
        "b LIKE '%_%_%_%_%' AND a = 'it''s'",
    )
    terms = (
        """{'and',{'>',{'ident',<<"a">>},{'-',12,4}},{'is_null',{'ident',<<"absent">>}}}.""",
        """{'or',{'like',{'ident',<<"b">>},{<<"te%">>,'no_escape'}},true}""",
        """{'in',{'ident',<<"b">>},[<<"x">>,<<"text_%">>]}.""",
        """{'between',{'ident',<<"a">>},{'range',1,9.5e1}}.""",
        """{'not',{'=',{'ident',<<"c">>},false}}.""",
    )
    return [b"\0" + each.encode() for each in selectors] + [b"\1" + each.encode() for each in terms]


WORDS: Final = tuple(
    word.encode()
    for word in (
        *(" AND ", " OR ", "NOT ", " BETWEEN ", " IN (", " LIKE '", " ESCAPE '", " IS NULL"),
        *("TRUE", "FALSE", "0x1F", "1e308", "1.5d", "9223372036854775808L", "'%_'", "amqp."),
        *("JMSMessageID", "JMSTimestamp", "JMSRedelivered", "/*", "*/", "--", "<>", "''", "((("),
        *("{'and',", "{'ident',<<\"", '">>}', "'is_null'", "{'range',", "['", "'no_escape'"),
        *("{'regex',", "{'not_like',", "{'not_in',", "{'-',", "{'/',", '<<"', '">>', "}."),
    )
)
TARGET: Final = Target("selectors", run, seeds, WORDS, size_max=1024)
