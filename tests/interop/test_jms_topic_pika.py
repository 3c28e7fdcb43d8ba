"""Exchanges of type x-jms-topic through pika, bound as RabbitMQ's JMS client binds them.

The client sends no selector but a term that it made of one; the headers of a message decide. Where
RabbitMQ with its plugin is under test, the same holds, except for the tests that say they are ours.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.exceptions import ChannelClosedByBroker

from tests.support.broker_process import BrokerProcess, BrokerUnderTest
from tests.support.pika_calls import get_all

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

VERSION = {"rjms_version": "3.7.0"}
TYPE = "x-jms-topic"


@pytest.fixture(autouse=True)
def _with_the_type(broker: BrokerUnderTest, connection: pika.BlockingConnection, name: str) -> None:
    # differs: plugins
    if not broker.is_foreign:
        return
    trial = connection.channel()
    try:
        trial.exchange_declare(f"{name}-trial", TYPE, auto_delete=True)
        trial.exchange_delete(f"{name}-trial")
        trial.close()
    except ChannelClosedByBroker:
        pytest.skip("the broker has no exchanges of this type")


def selecting(term: str) -> dict[str, Any]:
    """The arguments of a binding as the client has them. RabbitMQ 3.10 insists on the dot."""
    # differs: jms-dot
    return {"rjms_erlang_selector": f"{term}.", **VERSION}


def ident(name: str) -> str:
    return f"{{'ident',<<\"{name}\">>}}"


def declare(channel: BlockingChannel, name: str, **options: Any) -> None:
    channel.exchange_declare(name, TYPE, auto_delete=True, arguments=dict(VERSION), **options)


def subscriber(channel: BlockingChannel, exchange: str, term: str, key: str = "T") -> str:
    queue: str = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, exchange, key, selecting(term))
    return queue


def send(channel: BlockingChannel, exchange: str, body: bytes, **headers: Any) -> None:
    channel.basic_publish(exchange, "T", body, pika.BasicProperties(headers=headers))


#: term, headers of a message that it is true of, headers of others
CONDITIONS: list[tuple[str, dict[str, Any], list[dict[str, Any]]]] = [
    (ident("b"), {"b": True}, [{"b": False}, {}, {"b": "true"}]),
    (f"{{'not',{ident('b')}}}", {"b": False}, [{"b": True}, {}]),
    (f"{{'=',{ident('n')},3}}", {"n": 3}, [{"n": 4}, {"n": "3"}, {"n": True}, {}]),
    (f"{{'=',{ident('n')},3.0}}", {"n": 3}, [{"n": 4}]),
    (f"{{'<>',{ident('s')},<<\"a\">>}}", {"s": "b"}, [{"s": "a"}, {}]),
    (f"{{'<>',{ident('s')},<<\"a\">>}}", {"s": 5}, [{"s": "a"}]),
    (f"{{'>',{ident('n')},3}}", {"n": 2**40}, [{"n": 3}, {}]),
    (f"{{'>',{ident('n')},3}}", {"n": "text"}, [{"n": 1}]),
    (f"{{'<',{ident('n')},{ident('m')}}}", {"n": 1, "m": 2}, [{"n": 1}, {"n": 2, "m": 2}]),
    (f"{{'<=',{{'-',{ident('n')}}},{{'-',5}}}}", {"n": 5}, [{"n": 4}, {}]),
    (f"{{'=',{{'/',{ident('n')},2}},3.5}}", {"n": 7}, [{"n": 6}]),
    (f"{{'=',{ident('n')},{{'-',12,{{'-',4,1}}}}}}", {"n": 9}, [{"n": 7}]),
    (f"{{'between',{ident('n')},1,3}}", {"n": 3}, [{"n": 0}, {"n": 4}, {}]),
    (f"{{'not_between',{ident('n')},1,3}}", {"n": 4}, [{"n": 1}, {}]),
    (f'{{\'in\',{ident("s")},[<<"a">>,<<"b">>]}}', {"s": "b"}, [{"s": "c"}, {}]),
    (f"{{'not_in',{ident('s')},[<<\"a\">>]}}", {"s": "c"}, [{"s": "a"}, {}]),
    (f"{{'like',{ident('s')},<<\"a_c%\">>,'no_escape'}}", {"s": "abcd"}, [{"s": "ac"}, {}]),
    (f"{{'not_like',{ident('s')},<<\"a%\">>,'no_escape'}}", {"s": "ba"}, [{"s": "ab"}, {}]),
    (f'{{\'like\',{ident("a.b")},<<"x!_%">>,<<"!">>}}', {"a.b": "x_y"}, [{"a.b": "xyz"}]),
    (f"{{'is_null',{ident('s')}}}", {"other": 1}, [{"s": ""}, {"s": False}]),
    (f"{{'not_null',{ident('s')}}}", {"s": ""}, [{}]),
    (f"{{'or',{ident('b')},{{'>',{ident('n')},3}}}}", {"n": 4}, [{"n": 3}, {"b": False}]),
    (f"{{'and',{ident('b')},{{'>',{ident('n')},3}}}}", {"b": True, "n": 4}, [{"b": True}]),
    (f"{{'=',{{'>',{ident('n')},3}},{ident('b')}}}", {"b": False, "n": 3}, [{"b": True, "n": 3}]),
    (f'{{\'=\',{ident("s")},<<"it\'s \\"é\\" \\\\">>}}', {"s": 'it\'s "é" \\'}, [{"s": "é"}]),
]


@pytest.mark.row("M17")
@pytest.mark.parametrize(("term", "headers", "others"), CONDITIONS)
def test_headers_decide_where_a_message_goes(
    channel: BlockingChannel,
    name: str,
    term: str,
    headers: dict[str, Any],
    others: list[dict[str, Any]],
) -> None:
    declare(channel, name)
    queue = subscriber(channel, name, term)
    for other in others:
        send(channel, name, b"other", **other)
    send(channel, name, b"selected", **headers)
    channel.basic_publish(name, "T", b"without headers")
    # nothing else is there: IS NULL is the one condition that a message without headers meets
    expected = [b"selected", b"without headers"] if "is_null" in term else [b"selected"]
    assert get_all(channel, queue) == expected


@pytest.mark.row("M17")
# differs: jms-evaluation
@pytest.mark.usefixtures("only_hareline")
@pytest.mark.parametrize("value", [b"x", datetime(2026, 1, 1, tzinfo=UTC), [1], {"a": 1}, None])
def test_a_header_of_another_type_is_as_if_it_were_not_there(
    channel: BlockingChannel, name: str, value: object
) -> None:
    declare(channel, name)
    absent = subscriber(channel, name, f"{{'is_null',{ident('h')}}}")
    unlike = subscriber(channel, name, f"{{'<>',{ident('h')},<<\"x\">>}}")
    send(channel, name, b"1", h=value)
    assert get_all(channel, absent) == [b"1"]
    assert get_all(channel, unlike) == []


@pytest.mark.row("M17")
def test_neither_routing_keys_nor_properties_count(channel: BlockingChannel, name: str) -> None:
    declare(channel, name)
    queue = subscriber(channel, name, f"{{'>',{ident('JMSPriority')},3}}")
    properties = pika.BasicProperties(priority=9, headers={"a": 1})
    channel.basic_publish(name, "T", b"property", properties)
    properties = pika.BasicProperties(priority=0, headers={"JMSPriority": 4})
    channel.basic_publish(name, "another key", b"header", properties)
    assert get_all(channel, queue) == [b"header"]


@pytest.mark.row("M17")
def test_the_exchange_stands_behind_the_topic_and_goes_with_its_last_subscriber(
    channel: BlockingChannel, name: str
) -> None:
    topic, selecting_exchange = f"{name}-topic", f"{name}-slx"
    channel.exchange_declare(topic, "topic")
    declare(channel, selecting_exchange)
    channel.exchange_bind(selecting_exchange, topic, "weather.eu")
    queue = subscriber(channel, selecting_exchange, f"{{'<',{ident('t')},0}}", "weather.eu")
    for key, degrees in (("weather.eu", -1), ("weather.us", -2), ("weather.eu", 3)):
        properties = pika.BasicProperties(headers={"t": degrees})
        channel.basic_publish(topic, key, str(degrees).encode(), properties)
    assert get_all(channel, queue) == [b"-1"]
    channel.queue_delete(queue)
    with pytest.raises(ChannelClosedByBroker, match=f"no exchange '{selecting_exchange}'"):
        channel.exchange_declare(selecting_exchange, passive=True)


@pytest.mark.row("M17")
def test_what_no_subscriber_selects_is_returned_or_goes_to_the_alternate(
    channel: BlockingChannel, name: str
) -> None:
    rest = channel.queue_declare("", exclusive=True).method.queue
    channel.exchange_declare(f"{name}-rest", "fanout")
    channel.queue_bind(rest, f"{name}-rest")
    arguments = {"alternate-exchange": f"{name}-rest", **VERSION}
    channel.exchange_declare(name, TYPE, arguments=arguments)
    queue = subscriber(channel, name, f"{{'>',{ident('n')},3}}")
    send(channel, name, b"4", n=4)
    send(channel, name, b"3", n=3)
    assert (get_all(channel, queue), get_all(channel, rest)) == ([b"4"], [b"3"])
    channel.exchange_delete(name)


@pytest.mark.row("M17")
def test_declaring_and_binding_again_changes_nothing(channel: BlockingChannel, name: str) -> None:
    for _ in range(2):
        declare(channel, name)
    queue = subscriber(channel, name, "'true'")
    for _ in range(2):
        channel.queue_bind(queue, name, "T", selecting("'true'"))
    send(channel, name, b"1")
    assert get_all(channel, queue) == [b"1"]
    channel.queue_unbind(queue, name, "T", selecting("'true'"))
    with pytest.raises(ChannelClosedByBroker, match="no exchange"):
        channel.exchange_declare(name, passive=True)


@pytest.mark.row("M17")
def test_a_subscriber_has_one_condition_for_a_key_the_one_bound_last(
    channel: BlockingChannel, name: str
) -> None:
    declare(channel, name)
    queue = subscriber(channel, name, f"{{'=',{ident('n')},1}}")
    channel.queue_bind(queue, name, "T", selecting(f"{{'=',{ident('n')},2}}"))
    for number in (1, 2):
        send(channel, name, str(number).encode(), n=number)
    assert get_all(channel, queue) == [b"2"]
    channel.queue_bind(queue, name, "another key", selecting(f"{{'=',{ident('n')},1}}"))
    for number in (1, 2):
        send(channel, name, str(number).encode(), n=number)
    assert get_all(channel, queue) == [b"1", b"2"]


@pytest.mark.row("M17")
def test_a_message_comes_once_for_however_many_conditions(
    channel: BlockingChannel, name: str
) -> None:
    declare(channel, name)
    queue = subscriber(channel, name, f"{{'>',{ident('n')},1}}")
    for limit in range(2, 20):
        channel.queue_bind(queue, name, f"key{limit}", selecting(f"{{'>',{ident('n')},{limit}}}"))
    send(channel, name, b"all", n=100)
    send(channel, name, b"none", n=1)
    assert get_all(channel, queue) == [b"all"]


@pytest.mark.acceptance
@pytest.mark.row("M17")
def test_durable_subscriptions_survive_a_restart(own_broker: BrokerProcess) -> None:
    with pika.BlockingConnection(pika.URLParameters(own_broker.url)) as connection:
        channel = connection.channel()
        channel.exchange_declare("jms.durable.topic", "topic", durable=True)
        declare(channel, "jms-dutop-slx", durable=True)
        channel.exchange_bind("jms-dutop-slx", "jms.durable.topic", "T")
        channel.queue_declare("subscription", durable=True)
        for number in (3, 1, 2):  # the last one is in force, before and after
            term = f"{{'=',{ident('n')},{number}}}"
            channel.queue_bind("subscription", "jms-dutop-slx", "T", selecting(term))
        declare(channel, "jms-ndtop-slx")
        subscriber(channel, "jms-ndtop-slx", "'true'")
    own_broker.stop()
    own_broker.start()
    with pika.BlockingConnection(pika.URLParameters(own_broker.url)) as connection:
        channel = connection.channel()
        for number in (1, 2, 3):
            send(channel, "jms.durable.topic", str(number).encode(), n=number)
        assert get_all(channel, "subscription") == [b"2"]
        declare(channel, "jms-dutop-slx", durable=True)
        channel.queue_delete("subscription")
        for gone in ("jms-dutop-slx", "jms-ndtop-slx"):
            with pytest.raises(ChannelClosedByBroker, match="no exchange"):
                channel.exchange_declare(gone, passive=True)
            channel = connection.channel()


@pytest.mark.row("M17")
# differs: jms-no-condition
@pytest.mark.usefixtures("only_hareline")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "expected a string, not void"),
        ({"rjms_erlang_selector": 5}, "expected a string, not signedint"),
        (selecting(""), "invalid selector: expected a term, at character 1, near `.`"),
        (selecting("{'apply',1}"), "invalid selector: an unknown atom `apply`, at character 2"),
        (
            selecting(f'{{\'like\',{ident("s")},<<"%">>,<<"no">>}}'),
            'invalid selector: like ends with no_escape or one character in <<"...">>, at char',
        ),
        (
            selecting("{'not'," * 17 + "'true'" + "}" * 17),
            "too many nested levels, at character 113, near `{'not','true'}}}}}}}}...`",
        ),
        (selecting("{'and','true'}"), "and is followed by 2 terms, not 1, at character 1"),
    ],
)
def test_what_is_no_condition_is_refused_with_what_is_wrong_and_where(
    channel: BlockingChannel, name: str, arguments: dict[str, Any], problem: str
) -> None:
    channel.exchange_declare(name, TYPE, arguments=dict(VERSION))
    queue = channel.queue_declare(name, exclusive=True).method.queue
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.queue_bind(queue, name, "T", arguments)
    assert refused.value.reply_code == 406
    beginning = "PRECONDITION_FAILED - invalid arg 'rjms_erlang_selector': "
    assert refused.value.reply_text.startswith(beginning)
    assert problem in refused.value.reply_text
    assert len(refused.value.reply_text) < 255
