"""One channel's way out: replies, deliveries with their tags, and counts of its messages.

Deliveries flow unless the client has stopped them (channel.flow) or a redelivery goes first, the
connection's output is full, or a large content occupies the channel.                        [hot]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hareline.amqp.output import Output
from hareline.amqp.unacked import UnackedDeliveries
from hareline.broker.tracing import Tap
from hareline.counts import ExchangeCounts
from hareline.message import Message
from hareline.wire.encoder import content_frames
from hareline.wire.methods import Frame


class PublishTally:
    """``count``: publishes of a channel to one exchange that went to ``fan_out`` queues each.

    A run of publishes costs one addition; a publish is in exactly one tally, or collected already.
    ``is_mandatory``: those that no queue took went back.
    """

    __slots__ = ("count", "exchange", "fan_out", "is_mandatory")

    def __init__(self, exchange: ExchangeCounts, fan_out: int, is_mandatory: bool) -> None:
        self.exchange = exchange
        self.fan_out = fan_out
        self.is_mandatory = is_mandatory
        self.count = 0


#: Of a route that no channel has found.
UNTALLIED: Final = PublishTally(ExchangeCounts(), 0, False)


class ChannelTally:
    """Counts of one channel, as little as the rest can be worked out from.

    Deliveries are its delivery tags, and acknowledgements those that are neither unacked nor given
    back; they are not counted at all.

    ``publish``, ``return_unroutable`` and ``drop_unroutable`` were collected. ``automatic``:
    deliveries to consumers that do not acknowledge.
    """

    __slots__ = (
        "_publishes",
        "automatic",
        "drop_unroutable",
        "get",
        "get_empty",
        "get_no_ack",
        "publish",
        "redeliver",
        "return_unroutable",
    )

    def __init__(self) -> None:
        self._publishes: dict[tuple[int, int, bool], PublishTally] = {}
        self.publish = 0
        self.return_unroutable = 0
        self.drop_unroutable = 0
        self.automatic = 0
        self.get = 0
        self.get_no_ack = 0
        self.get_empty = 0
        self.redeliver = 0

    def of(self, exchange: ExchangeCounts, fan_out: int, is_mandatory: bool) -> PublishTally:
        """Tally of such publishes, until the next ``forget``."""
        key = (id(exchange), fan_out, is_mandatory and not fan_out)
        tally = self._publishes.get(key)
        if tally is None:
            tally = self._publishes[key] = PublishTally(exchange, fan_out, is_mandatory)
        return tally

    def collect(self) -> None:
        """Add what the publishes' tallies have counted to the channel and the exchanges."""
        for tally in self._publishes.values():
            count = tally.count
            if count:
                tally.count = 0
                tally.exchange.publish_in += count
                tally.exchange.publish_out += count * tally.fan_out
                self.publish += count
                if not tally.fan_out and tally.is_mandatory:
                    self.return_unroutable += count
                elif not tally.fan_out:
                    self.drop_unroutable += count

    def forget(self) -> None:
        """Collect, and let go of all tallies: the routes that refer to them are forgotten."""
        self.collect()
        self._publishes.clear()

    @property
    def publish_count(self) -> int:
        """All publishes, collected or not."""
        return self.publish + sum([tally.count for tally in self._publishes.values()])


class DeliveryPort:
    """``number`` is the channel's, ``next_tag`` the delivery tag of the next delivery.

    ``tap``: what the firehose is told by; None while it is off.
    ``unacked``: deliveries that wait for an acknowledgement. ``is_stopped``: by the client, with
    channel.flow. ``is_flowing``: deliveries of queues may go out. ``is_closing``: one side has
    sent channel.close. ``tally``: what the channel has counted, None as long as that is nothing.
    """

    __slots__ = (
        "_waiters",
        "is_closing",
        "is_flowing",
        "is_stopped",
        "next_tag",
        "number",
        "output",
        "tally",
        "tap",
        "unacked",
    )

    def __init__(self, number: int, output: Output) -> None:
        self.number = number
        self.output = output
        self.unacked = UnackedDeliveries()
        self.next_tag = 1
        self.is_stopped = False
        self.is_flowing = True
        self.is_closing = False
        self.tap: Tap | None = None
        self._waiters: list[Callable[[], None]] = []
        self.tally: ChannelTally | None = None

    @property
    def channel_name(self) -> str:
        """RabbitMQ's name of the channel: its connection's, and the number."""
        return f"{self.output.connection_name} ({self.number})"

    def counting(self) -> ChannelTally:
        tally = self.tally
        if tally is None:
            tally = self.tally = ChannelTally()
        return tally

    def take_tag(self) -> int:
        tag = self.next_tag
        self.next_tag = tag + 1
        return tag

    def reply(self, method_class: type[Frame], **fields: object) -> None:
        self.output.send(self.number, method_class, **fields)

    def write_content(self, head: tuple[bytes, ...], message: Message) -> None:
        """A method frame and the content that it carries."""
        output = self.output
        if message.large is not None:
            output.begin_large(self.number, head, message)
            if output.outboxes[self.number].is_long:
                output.hold_input()
        else:
            frames = content_frames(message, self.number, output.frame_max)
            output.write_on(self.number, *head, *frames)

    # ------------------------------------------------------ may deliveries go out

    @property
    def is_writable(self) -> bool:
        output = self.output
        return self.is_flowing and not output.is_full and self.number not in output.outboxes

    def waits(self, callback: Callable[[], None]) -> bool:
        """True if deliveries may not go out now; then ``callback`` is called once they may."""
        output = self.output
        if output.is_full:
            output.when_writable(callback)
            return True
        if not self.is_flowing:
            self._waiters.append(callback)
            return True
        return bool(output.outboxes) and self.when_free(callback)

    def when_free(self, callback: Callable[[], None]) -> bool:
        """Call once when no large content goes out any more; False if none does."""
        outbox = self.output.outboxes.get(self.number)
        if outbox is None:
            return False
        outbox.waiters.append(callback)
        return True

    def update_flow(self) -> None:
        """Let deliveries go on, unless the client has stopped them; nothing goes first any more."""
        self.is_flowing = not self.is_stopped
        if self.is_flowing:
            waiters, self._waiters = self._waiters, []
            for callback in waiters:
                callback()

    def drop_contents(self) -> None:
        """Drop large contents of which the client has seen nothing: the channel ends."""
        outbox = self.output.outboxes.get(self.number)
        if outbox is not None:
            outbox.drop_contents()

    def close(self) -> None:
        """The channel is gone: nothing that waits for it is called any more."""
        self._waiters.clear()
