"""The replay itself: that it reads the grammar, and that a wrong transcript fails."""

from __future__ import annotations

import pytest

from hareline.wire.table import SignedInt, Table, Timestamp

from .replay import Mismatch, Replay
from .transcript import PartOfTable, TranscriptError, Variable, parse

DECLARED = """
C: open
C: 1 queue.declare queue=q
S: 1 queue.declare-ok queue=q message_count=0
"""


def run(text: str) -> None:
    Replay().run(parse(text))


def mismatch(text: str) -> str:
    with pytest.raises(Mismatch) as caught:
        run(text)
    return str(caught.value)


# --------------------------------------------------------------------------------- the grammar


def test_values_are_what_they_look_like() -> None:
    (step,) = parse(
        r'C2: 7 queue.declare queue="a \"b\" \x00" durable=true passive=false '
        r"arguments={x-max-length=5 t=time:9 l=long:-3 list=[a 1 {b=c}] none=none} nowait=$v"
    )
    assert (step.line, step.who, step.client, step.channel) == (1, "C2", "2", 7)
    assert step.verb == "queue.declare"
    assert step.fields == {
        "queue": 'a "b" \0',
        "durable": True,
        "passive": False,
        "arguments": Table(
            {
                "x-max-length": SignedInt(5),
                "t": Timestamp(9),
                "l": -3,
                "list": ["a", 1, Table(b="c")],
                "none": None,
            }
        ),
        "nowait": Variable("v"),
    }
    assert step.fields["arguments"].kinds["t"] == "T"  # type: ignore[attr-defined]


def test_a_bare_word_may_look_like_a_name_or_a_version() -> None:
    (step,) = parse("C: 1 queue.declare queue=amq.rabbitmq.reply-to routing_key=4.2.0-x")
    assert step.fields == {"queue": "amq.rabbitmq.reply-to", "routing_key": "4.2.0-x"}


def test_a_table_may_be_open_at_its_end() -> None:
    (step,) = parse("S: 0 connection.start server_properties={product=RabbitMQ ...}")
    assert step.fields["server_properties"] == PartOfTable(Table(product="RabbitMQ"))


def test_comments_and_blank_lines_say_nothing() -> None:
    assert parse("# C: open\n\n   \n") == []


@pytest.mark.parametrize(
    "line",
    [
        "C: 1 queue.declare queue=q more",
        "C: 1 queue.declare queue=q queue=p",
        'C: 1 queue.declare queue="q',
        "C: 1 queue.declare arguments={a}",
        "C: 1 queue.declare arguments=[a",
    ],
)
def test_a_line_that_is_not_in_the_grammar_is_named(line: str) -> None:
    with pytest.raises(TranscriptError, match="line 2: "):
        parse(f"\n{line}")


@pytest.mark.parametrize("line", ["C: 1 queue.destroy queue=q", "wait 5"])
def test_what_nobody_knows_is_an_error(line: str) -> None:
    with pytest.raises(TranscriptError, match=r"line 2: nobody knows"):
        run(f"C: open\n{line}")


# ---------------------------------------------------------------------------- that it can fail


def test_a_true_transcript_passes() -> None:
    run(DECLARED)


def test_a_field_that_differs_fails() -> None:
    assert "line 4: S: 1 queue.declare-ok queue=q" in mismatch(DECLARED.replace("=0", "=1"))


def test_another_method_fails() -> None:
    assert "it sent 1 queue.declare-ok" in mismatch(
        DECLARED.replace("S: 1 queue.declare-ok", "S: 1 queue.purge-ok")
    )


def test_another_channel_fails() -> None:
    assert "it sent 1 queue.declare-ok" in mismatch(DECLARED.replace("S: 1", "S: 2"))


def test_an_answer_that_does_not_come_fails() -> None:
    assert "it sent nothing" in mismatch(DECLARED + "S: 1 queue.declare-ok\n")


def test_an_answer_that_nobody_named_fails() -> None:
    assert "also sent 1 queue.declare-ok" in mismatch(DECLARED + "C: 1 queue.declare queue=q\n")
    assert "also sent 1 queue.declare-ok" in mismatch(
        DECLARED + "C: 1 queue.declare queue=q\nS2: nothing\nC: 1 queue.declare queue=q\n"
    )


def test_nothing_means_nothing() -> None:
    assert "it sent 1 queue.declare-ok" in mismatch(
        DECLARED + "C: 1 queue.declare queue=q\nS: nothing\n"
    )


@pytest.mark.parametrize("state", ["closed", "dropped"])
def test_a_socket_that_is_still_open_fails(state: str) -> None:
    assert "the socket is open" in mismatch(DECLARED + f"S: {state}\n")


def test_wrong_octets_fail() -> None:
    assert "it sent b'" in mismatch('C: octets "AMQP\\x09\\x09\\x09\\x09"\nS: octets "AMQP\\x01"\n')


@pytest.mark.parametrize(
    "expected",
    [
        'body="other"',
        "properties={}",
        "properties={message_id=m headers={a=1 b=2}}",
        "properties={message_id=m headers={a=2}}",
        "properties={message_id=m headers={c=1 ...}}",
        "routing_key=/[a-p]/",
        "delivery_tag=2",
    ],
)
def test_a_content_that_differs_fails(expected: str) -> None:
    story = DECLARED + (
        'C: 1 basic.publish routing_key=q body="x" properties={message_id=m headers={a=1}}\n'
        "C: 1 basic.get queue=q\n"
        "S: 1 basic.get-ok "
    )
    run(story + 'body="x" properties={message_id=m headers={a=1}} routing_key=/[q-z]/')
    assert f"S: 1 basic.get-ok {expected}" in mismatch(story + expected)


def test_a_variable_keeps_its_first_value() -> None:
    names = "C: 1 queue.declare\nS: 1 queue.declare-ok queue=$name\n"
    again = "C: 1 queue.declare queue=$name\nS: 1 queue.declare-ok queue=$name\n"
    run("C: open\n" + names + again)
    assert "is not 'amq.gen-" in mismatch("C: open\n" + names + names)


def test_lines_of_a_client_in_a_row_are_one_read() -> None:
    replay = Replay()
    replay.run(parse(DECLARED))
    transport = replay.clients[""].peer.transport
    writes = transport.writes
    replay.run(parse("C: 1 basic.qos\nC: 1 basic.qos\n" + "S: 1 basic.qos-ok\n" * 2))
    assert transport.writes == writes + 1
