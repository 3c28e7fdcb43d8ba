"""The durable store against a plain dictionary, with crashes, orderly ends and restarts.

Queues are dictionaries from offset to body and delivery count. After a crash exactly what the last
durable batch left must come back; what was delivered may have a count of 1 more than was told.
"""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hareline.queues.core.entry import ACQUIRED, READY
from hareline.storage.store.ledger import DurableTransaction
from tests.support.examples import examples
from tests.support.store_stand import FakeEntry, StoreStand, persistent

QUEUES = (1, 2, 3)
some = st.randoms(use_true_random=False)


class Work:
    """What a transaction has done so far: what it added, and what it settled in which state."""

    def __init__(self, transaction: DurableTransaction) -> None:
        self.transaction = transaction
        self.added: list[tuple[int, int]] = []
        self.settled: list[tuple[int, FakeEntry, int]] = []


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stand: StoreStand = StoreStand(segment_bytes=4096)
        self.alive: dict[int, dict[int, FakeEntry]] = {queue_id: {} for queue_id in QUEUES}
        self.works: list[Work] = []
        self.bodies = 0

    @initialize(retention_bytes=st.sampled_from([0, 1, 10_000]))
    def begin(self, retention_bytes: int) -> None:
        self.stand = StoreStand(segment_bytes=4096, retention_bytes=retention_bytes)

    # ------------------------------------------------------------- what queues do

    @rule(
        count=st.integers(1, 12),
        size=st.integers(0, 400),
        queue_ids=st.sets(st.sampled_from(QUEUES), min_size=1),
    )
    def publish(self, count: int, size: int, queue_ids: set[int]) -> None:
        for _ in range(count):
            self.bodies += 1
            message = persistent(b"%d:" % self.bodies + bytes(size))
            for queue_id in sorted(queue_ids):
                entry = self.stand.entry(queue_id, message)
                self.alive[queue_id][entry.offset] = entry

    def _pick(self, chance: Random, queue_id: int, state: int | None) -> list[FakeEntry]:
        entries = [
            entry
            for entry in self.alive[queue_id].values()
            if state is None or entry.state == state
        ]
        picked = chance.sample(entries, chance.randint(0, len(entries)))
        return sorted(picked, key=lambda entry: entry.offset) if chance.random() < 0.5 else picked

    @rule(chance=some, queue_id=st.sampled_from(QUEUES))
    def settle(self, chance: Random, queue_id: int) -> None:
        entries = self._pick(chance, queue_id, None)
        self.stand.settle(queue_id, entries)
        for entry in entries:
            del self.alive[queue_id][entry.offset]

    @rule(chance=some, queue_id=st.sampled_from(QUEUES))
    def settle_as_pages(self, chance: Random, queue_id: int) -> None:
        entries = self._pick(chance, queue_id, READY)
        entries = [entry for entry in entries if entry.message.position > 0]
        entries.sort(key=lambda entry: entry.offset)
        self.stand.queue(queue_id).settle_paged(
            [entry.offset for entry in entries], [entry.message.position for entry in entries]
        )
        for entry in entries:
            del self.alive[queue_id][entry.offset]

    @rule(chance=some, queue_id=st.sampled_from(QUEUES))
    def acquire(self, chance: Random, queue_id: int) -> None:
        self.stand.acquire(queue_id, self._pick(chance, queue_id, READY))

    @rule(chance=some, queue_id=st.sampled_from(QUEUES))
    def release(self, chance: Random, queue_id: int) -> None:
        self.stand.release(queue_id, self._pick(chance, queue_id, ACQUIRED))

    @rule()
    def turn(self) -> None:
        self.stand.turn()

    # ------------------------------------------------------------- transactions

    @rule()
    def begin_transaction(self) -> None:
        if len(self.works) < 3:
            self.works.append(Work(self.stand.store.begin_transaction()))

    @rule(chance=some, queue_ids=st.sets(st.sampled_from(QUEUES), min_size=1))
    def work_in_transaction(self, chance: Random, queue_ids: set[int]) -> None:
        """A share: some messages, and some settlements."""
        if not self.works:
            return
        work = chance.choice(self.works)
        work.transaction.enter()
        before = {queue_id: set(entries) for queue_id, entries in self.alive.items()}
        self.publish(chance.randint(0, 8), chance.randint(0, 300), queue_ids)
        for queue_id in queue_ids:
            entries = self._pick(chance, queue_id, None)[: chance.randint(0, 8)]
            work.settled += [(queue_id, entry, entry.state) for entry in entries]
            self.stand.settle(queue_id, entries)
            new = self.alive[queue_id].keys() - before[queue_id]
            work.added += [(queue_id, offset) for offset in new]
            for entry in entries:
                del self.alive[queue_id][entry.offset]
        work.transaction.leave()

    @rule(chance=some)
    def finish_transaction(self, chance: Random) -> None:
        if self.works:
            self.works.pop(chance.randrange(len(self.works))).transaction.finish()

    def _undo_transactions(self) -> set[FakeEntry]:
        """Those that have not come to their end count for nothing; returns what they settled."""
        restored = set()
        for work in self.works:
            for queue_id, entry, state in work.settled:
                entry.state = state
                self.alive[queue_id][entry.offset] = entry
                restored.add(entry)
        for work in self.works:
            for queue_id, offset in work.added:
                self.alive[queue_id].pop(offset, None)
        self.works = []
        return restored

    # ------------------------------------------------------------- ends

    @rule()
    def crash(self) -> None:
        """With everything durable: what is in between is for the tests of crashes."""
        self.stand.turn()
        self.stand.crash()
        self._come_back(is_orderly=False)

    @rule()
    def stop(self) -> None:
        for queue_id in QUEUES:
            taken = [each for each in self.alive[queue_id].values() if each.state == ACQUIRED]
            self.stand.release(queue_id, taken)
        self.stand.store.close()
        self._come_back(is_orderly=True)

    def _come_back(self, *, is_orderly: bool) -> None:
        restored = self._undo_transactions()
        again = self.stand.reopen(QUEUES)
        for queue_id in QUEUES:
            before, found = self.alive[queue_id], again.found[queue_id]
            assert list(found) == sorted(before)
            for offset, entry in found.items():
                was = before[offset]
                assert entry.message.body == was.message.body
                if was in restored:  # returns that were not written yet are not counted
                    assert is_orderly or entry.returns >= min(1, was.returns)
                elif is_orderly:
                    assert entry.delivery_count == was.delivery_count
                elif was.state == ACQUIRED:
                    assert entry.returns >= max(1, was.returns)
                else:  # covers say "may have been" of more than was delivered
                    assert was.returns <= entry.returns <= max(1, was.returns)
            assert again.queue(queue_id).next_offset >= max(before, default=-1) + 1
            again.next_offsets[queue_id] = self.stand.next_offsets.get(queue_id, 0)
            self.alive[queue_id] = found
        self.stand = again

    @invariant()
    def what_is_written_can_be_read(self) -> None:
        content_store = self.stand.store.content_store
        assert content_store is not None
        for entries in self.alive.values():
            written = [each.message for each in entries.values() if each.message.position > 0]
            for message in written[:3] + written[-3:]:
                assert content_store.read(message.position).body == message.body

    @invariant()
    def nothing_is_wrong(self) -> None:
        assert not self.stand.store.failure
        assert not self.stand.reports


TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=examples(0.4),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
