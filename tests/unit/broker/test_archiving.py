"""Which streams get a message of some queues, and that each gets it once."""

from __future__ import annotations

from hareline.broker.vhost import VirtualHost
from hareline.queues.core.enqueueing import archive_message, archives_of
from hareline.queues.queue import Queue
from tests.support.messages import make_message
from tests.support.vhosts import declare


def stream(vhost: VirtualHost, name: str, archive: str | None = None) -> Queue:
    arguments: dict[str, object] = {"x-queue-type": "stream"}
    if archive is not None:
        arguments["x-archive-to"] = archive
    return declare(vhost, name, is_durable=True, arguments=arguments)


def archived(vhost: VirtualHost, name: str, archive: str) -> Queue:
    return declare(vhost, name, arguments={"x-archive-to": archive})


def bodies(queue: Queue) -> list[bytes]:
    return [entry.message.body for entry in queue.order]


def test_queues_without_an_archive_have_none(vhost: VirtualHost) -> None:
    plain = declare(vhost, "plain")
    assert archives_of((plain,)) == ()
    assert archive_message(make_message(b"m"), (plain,)) == ()


def test_two_queues_of_one_archive_give_it_one_copy(vhost: VirtualHost) -> None:
    first = stream(vhost, "first")
    takers = (archived(vhost, "a", "first"), archived(vhost, "b", "first"))
    assert archive_message(make_message(b"m"), takers) == (first,)
    assert bodies(first) == [b"m"]


def test_the_archive_of_an_archive_gets_it_too(vhost: VirtualHost) -> None:
    last = stream(vhost, "last")
    middle = stream(vhost, "middle", "last")
    first = stream(vhost, "first", "middle")
    archive_message(make_message(b"m"), (archived(vhost, "q", "first"),))
    assert [bodies(each) for each in (first, middle, last)] == [[b"m"]] * 3


def test_a_stream_that_was_routed_to_is_not_given_a_second_copy(vhost: VirtualHost) -> None:
    first = stream(vhost, "first")
    queue = archived(vhost, "q", "first")
    assert archives_of((queue, first)) == ()
    assert archives_of((queue, first), (first,)) == ()


def test_archives_of_exchanges_come_first_and_have_archives_in_turn(vhost: VirtualHost) -> None:
    last = stream(vhost, "last")
    passed = stream(vhost, "passed", "last")
    assert archives_of((), (passed,)) == (passed, last)
    assert archives_of((archived(vhost, "q", "passed"),), (passed,)) == (passed, last)


def test_a_circle_ends(vhost: VirtualHost) -> None:
    one = stream(vhost, "one")
    two = stream(vhost, "two", "one")
    one.archive = two  # no declaration can make this
    assert archives_of((archived(vhost, "q", "one"),)) == (one, two)
    assert archives_of((one,)) == (two,)


def test_the_copy_keeps_address_body_and_properties(vhost: VirtualHost) -> None:
    first = stream(vhost, "first")
    queue = archived(vhost, "q", "first")
    message = make_message(b"body", exchange="x", routing_key="k", content_type="text/plain")
    queue.put(message)
    archive_message(message, (queue,))
    (entry,) = first.order
    assert entry.message.address is message.address
    assert entry.message.properties.content_type == "text/plain"
    (original,) = queue.order
    assert original.message is message


def test_a_message_with_a_time_to_live_stays_in_the_archive(vhost: VirtualHost) -> None:
    first = stream(vhost, "first")
    queue = archived(vhost, "q", "first")
    clock = vhost.environment.clock
    message = make_message(b"m", expiration="5").expiring_at(clock.now_ms + 5)
    queue.put(message)
    archive_message(message, (queue,))
    assert first.expiry is None
    assert bodies(first) == [b"m"]
