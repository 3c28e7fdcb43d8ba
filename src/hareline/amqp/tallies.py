"""What a channel counts while messages pass: as little as the rest can be worked out from.

Publishes are counted by exchange and number of queues, in the ``PublishTally`` that a route refers
to: one addition for a run of them. ``ChannelTally.collect`` adds them to the channel and to the
exchanges, when ``Channel.counts`` is asked for. Deliveries are the channel's delivery tags, and
acknowledgements those that are neither unacked nor given back; they are not counted at all.

Invariant: a publish is in exactly one tally, or in the counts already.                       [hot]
"""

from __future__ import annotations

from typing import Final

from hareline.counts import ExchangeCounts


class PublishTally:
    """``count``: publishes of a channel to one exchange that went to ``fan_out`` queues each.

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
    """What one channel has counted; made when it has something to count.

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
        """Where such publishes are counted; until the next ``forget``."""
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
