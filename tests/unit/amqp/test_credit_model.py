"""Credit against a model: whatever a client does, it gets what it may get and not one message more.

Two channels with prefetch limits for each consumer (its channel's or its own, refilled at once or
in blocks) and for the channel, flow, transactions, requeues, cancels and closes, over two queues.
After every step the broker's turn is finished, and:

- what was delivered came off the front of its queue, in order for each consumer;
- no consumer and no channel holds more than its limit allowed at the time;
- a consumer that had used up its limit got nothing before enough had come back;
- nothing is left in a queue that somebody with credit could have had.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hareline.wire.methods import commands
from hareline.wire.table import Table

from .peer import Received, SteppedBroker

BASIC, CHANNEL, TX = commands.Basic, commands.Channel, commands.Tx
CHANNELS = st.sampled_from([1, 2])
QUEUES = st.sampled_from(["p", "q"])
LIMITS = st.integers(0, 3)
OWN_LIMITS = st.none() | st.integers(0, 6)
PERCENTAGES = st.sampled_from([100, 100, 67, 50, 34, 1])


@dataclass
class ConsumerModel:
    queue: str
    limit: int
    acknowledges: bool
    refill_percent: int = 100
    is_used_up: bool = False  # it waits until few enough are unacked

    @property
    def refill_at(self) -> int:
        return min(self.limit - 1, self.limit * self.refill_percent // 100)


@dataclass
class Delivery:
    tag: int
    queue: str
    body: int
    consumer: str | None  # None: basic.get
    fate: str = "unacked"  # or "ack", "requeue": decided in a transaction, not yet done


@dataclass
class ChannelModel:
    prefetch: int = 0
    limit: int = 0
    is_flowing: bool = True
    is_transactional: bool = False
    consumers: dict[str, ConsumerModel] = field(default_factory=dict)
    gone: dict[str, ConsumerModel] = field(default_factory=dict)  # cancelled; deliveries stay
    deliveries: list[Delivery] = field(default_factory=list)

    def held_by(self, tag: str) -> int:
        return sum(one.consumer == tag for one in self.deliveries)

    def held_by_consumers(self) -> int:
        return sum(one.consumer is not None for one in self.deliveries)

    def may_have_one_more(self, tag: str) -> bool:
        consumer = self.consumers[tag]
        if not self.is_flowing:
            return False
        if (
            consumer.acknowledges
            and consumer.limit
            and (consumer.is_used_up or self.held_by(tag) >= consumer.limit)
        ):
            return False
        return not self.limit or self.held_by_consumers() < self.limit

    def take(self, tag: str, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        consumer = self.consumers[tag]
        consumer.is_used_up = self.held_by(tag) == consumer.limit

    def refill(self) -> None:
        for tag, consumer in self.consumers.items():
            if self.held_by(tag) <= consumer.refill_at:
                consumer.is_used_up = False


class CreditMachine(RuleBasedStateMachine):
    queue_arguments = Table()

    def __init__(self) -> None:
        super().__init__()
        self.broker = SteppedBroker()
        self.peer = self.broker.connect(channels=[1, 2])
        self.ready: dict[str, list[int]] = {"p": [], "q": []}
        self.channels = {1: ChannelModel(), 2: ChannelModel()}
        self.published = 0
        self.tags_used = 0
        for queue in self.ready:
            self.peer.declare(queue, arguments=self.queue_arguments)

    # ------------------------------------------------------------------ what the client does

    @rule(queue=QUEUES, count=st.integers(1, 4), number=CHANNELS)
    def publish(self, queue: str, count: int, number: int) -> None:
        if self.channels[number].is_transactional:
            number = 3 - number
        if self.channels[number].is_transactional:
            return
        for _ in range(count):
            self.published += 1
            self.ready[queue].append(self.published)
            self.peer.publish(number, queue, b"%d" % self.published)
        self.settle_turn()

    @rule(
        number=CHANNELS,
        queue=QUEUES,
        acknowledges=st.booleans(),
        own_limit=OWN_LIMITS,
        refill_percent=PERCENTAGES,
    )
    def consume(
        self,
        number: int,
        queue: str,
        acknowledges: bool,
        own_limit: int | None,
        refill_percent: int,
    ) -> None:
        self.tags_used += 1
        tag = f"t{self.tags_used}"
        channel = self.channels[number]
        limit = channel.prefetch if own_limit is None else own_limit
        channel.consumers[tag] = ConsumerModel(queue, limit, acknowledges, refill_percent)
        arguments = Table({"x-prefetch-refill": refill_percent})
        if own_limit is not None:
            arguments["x-prefetch-count"] = own_limit
        self.peer.consume(queue, tag, number=number, no_ack=not acknowledges, arguments=arguments)
        self.settle_turn("basic.consume-ok")

    @precondition(lambda self: any(channel.consumers for channel in self.channels.values()))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        number, tag = data.draw(
            st.sampled_from(
                [
                    (number, tag)
                    for number, channel in self.channels.items()
                    for tag in channel.consumers
                ]
            )
        )
        channel = self.channels[number]
        channel.gone[tag] = channel.consumers.pop(tag)
        self.peer.send(number, BASIC.Cancel, consumer_tag=tag)
        self.settle_turn("basic.cancel-ok")

    @rule(number=CHANNELS, count=LIMITS, is_global=st.booleans())
    def qos(self, number: int, count: int, is_global: bool) -> None:
        channel = self.channels[number]
        channel.limit = count if is_global else 0
        if not is_global:
            channel.prefetch = count
        self.peer.send(number, BASIC.Qos, prefetch_count=count, global_=is_global)
        self.settle_turn("basic.qos-ok")

    @rule(number=CHANNELS, is_flowing=st.booleans())
    def flow(self, number: int, is_flowing: bool) -> None:
        self.channels[number].is_flowing = is_flowing
        self.peer.send(number, CHANNEL.Flow, active=is_flowing)
        self.settle_turn("channel.flow-ok")

    @rule(number=CHANNELS, queue=QUEUES)
    def get(self, number: int, queue: str) -> None:
        received = self.peer.get(queue, number=number)
        if received is None:
            assert self.ready[queue] == []
            return
        body = int(received.body)
        assert body == self.ready[queue].pop(0)
        tag = received.method.delivery_tag
        self.channels[number].deliveries.append(Delivery(tag, queue, body, None))

    @precondition(lambda self: self.undecided())
    @rule(data=st.data(), multiple=st.booleans(), how=st.sampled_from(["ack", "drop", "requeue"]))
    def settle(self, data: st.DataObject, multiple: bool, how: str) -> None:
        number, chosen = data.draw(st.sampled_from(self.undecided()))
        channel = self.channels[number]
        decided = [
            one
            for one in channel.deliveries
            if one.fate == "unacked" and (one is chosen or (multiple and one.tag < chosen.tag))
        ]
        for one in decided:
            one.fate = "requeue" if how == "requeue" else "ack"
        if not channel.is_transactional:
            self.carry_out(channel)
        if how == "ack":
            self.peer.ack(chosen.tag, number=number, multiple=multiple)
        else:
            self.peer.nack(chosen.tag, number=number, multiple=multiple, requeue=how == "requeue")
        self.settle_turn()

    @rule(number=CHANNELS)
    def recover(self, number: int) -> None:
        channel = self.channels[number]
        for one in channel.deliveries:
            if one.fate == "unacked":
                self.put_back(one)
        channel.deliveries = [one for one in channel.deliveries if one.fate != "unacked"]
        self.peer.send(number, BASIC.Recover, requeue=True)
        self.settle_turn("basic.recover-ok")

    @rule(number=CHANNELS)
    def select(self, number: int) -> None:
        self.channels[number].is_transactional = True
        self.peer.call(number, TX.Select)

    @precondition(lambda self: any(one.is_transactional for one in self.channels.values()))
    @rule(data=st.data(), is_commit=st.booleans())
    def end_transaction(self, data: st.DataObject, is_commit: bool) -> None:
        numbers = [number for number, one in self.channels.items() if one.is_transactional]
        number = data.draw(st.sampled_from(numbers))
        channel = self.channels[number]
        if is_commit:
            self.carry_out(channel)
        else:
            for one in channel.deliveries:
                one.fate = "unacked"
        self.peer.send(number, TX.Commit if is_commit else TX.Rollback)
        self.settle_turn("tx.commit-ok" if is_commit else "tx.rollback-ok")

    @rule(number=CHANNELS)
    def close_and_open(self, number: int) -> None:
        for one in self.channels[number].deliveries:
            self.put_back(one)
        self.channels[number] = ChannelModel()
        self.peer.send(number, CHANNEL.Close)
        self.settle_turn("channel.close-ok")
        self.peer.open(number)

    # ----------------------------------------------------------------------- what must follow

    def undecided(self) -> list[tuple[int, Delivery]]:
        return [
            (number, one)
            for number, channel in self.channels.items()
            for one in channel.deliveries
            if one.fate == "unacked"
        ]

    def carry_out(self, channel: ChannelModel) -> None:
        """What was decided happens."""
        for one in channel.deliveries:
            if one.fate == "requeue":
                self.put_back(one)
        channel.deliveries = [one for one in channel.deliveries if one.fate == "unacked"]

    def put_back(self, delivery: Delivery) -> None:
        self.ready[delivery.queue].append(delivery.body)
        self.ready[delivery.queue].sort()

    def settle_turn(self, answer: str = "") -> None:
        """Take the answer and the deliveries of the turn, and hold each against the model."""
        for channel in self.channels.values():
            channel.refill()
        received = self.peer.receive()
        answers = [one.name for one in received if one.name != "basic.deliver"]
        assert answers == ([answer] if answer else [])
        deliveries = [one for one in received if one.name == "basic.deliver"]
        self.check_came_off_the_front(deliveries)
        for one in deliveries:
            channel = self.channels[one.channel]
            tag = one.method.consumer_tag
            assert tag in channel.consumers, f"{tag} was cancelled"
            assert channel.may_have_one_more(tag), f"{tag} had no credit"
            if channel.consumers[tag].acknowledges:
                queue = channel.consumers[tag].queue
                delivery_tag = one.method.delivery_tag
                channel.take(tag, Delivery(delivery_tag, queue, int(one.body), tag))

    def check_came_off_the_front(self, deliveries: list[Received]) -> None:
        last: dict[str, int] = {}
        taken: dict[str, list[int]] = {"p": [], "q": []}
        for one in deliveries:
            tag, body = one.method.consumer_tag, int(one.body)
            assert body > last.get(tag, 0), f"{tag} got {body} after {last[tag]}"
            last[tag] = body
            taken[self.channels[one.channel].consumers[tag].queue].append(body)
        for queue, bodies in taken.items():
            front = self.ready[queue][: len(bodies)]
            assert sorted(bodies) == front
            del self.ready[queue][: len(bodies)]

    @invariant()
    def nothing_waits_for_somebody_with_credit(self) -> None:
        for queue, bodies in self.ready.items():
            assert self.broker.queue(queue).ready_count == len(bodies)
            if bodies:
                able = [
                    tag
                    for channel in self.channels.values()
                    for tag, consumer in channel.consumers.items()
                    if consumer.queue == queue and channel.may_have_one_more(tag)
                ]
                assert able == []

    @invariant()
    def the_books_agree(self) -> None:
        for queue in self.ready:
            held = sum(
                one.queue == queue
                for channel in self.channels.values()
                for one in channel.deliveries
            )
            assert self.broker.queue(queue).unacked_count == held


class SelectiveCreditMachine(CreditMachine):
    """The same by the lane of queues that look at each message before they choose a consumer."""

    queue_arguments = Table({"x-message-group-type": "standard"})


TestCredit = CreditMachine.TestCase
TestSelectiveCredit = SelectiveCreditMachine.TestCase
