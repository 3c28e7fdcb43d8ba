"""What damaged octets may have held, by what stands around them."""

from __future__ import annotations

from hareline.storage.journal.format.frame import CHECKPOINT
from hareline.storage.journal.format.positions import offset_of
from hareline.storage.journal.format.records import Checkpoint, CheckpointQueue
from hareline.storage.journal.loss import Loss, LossSurvey, QueueLoss
from hareline.storage.journal.reader import JournalReader
from tests.crash.forgetful_files import ForgetfulFiles
from tests.support.encoders import encode_checkpoint
from tests.support.segments import DIRECTORY, Plain, SegmentWriter, message, settle

Q, P, DELETED = 1, 2, 3


def checkpoint(*next_offsets: tuple[int, int]) -> Plain:
    queues = [CheckpointQueue(queue_id, offset, 0) for queue_id, offset in next_offsets]
    return CHECKPOINT, encode_checkpoint(Checkpoint(0, queues))


def surveyed(files: ForgetfulFiles) -> list[Loss]:
    """Of each damage that does not show what it held, in order."""
    survey = LossSurvey([Q, P])
    reader = JournalReader(files, DIRECTORY, survey)
    try:
        survey.segments = [source.number for source in reader.live]
        for batch in reader.batches():
            survey.take(batch)
    finally:
        reader.close()
    return [loss for _, loss in sorted(survey.losses().items())]


def test_each_queue_lacks_what_is_neither_found_nor_settled(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    journal.begin(1)
    journal.batch(checkpoint(), message((Q, 0)), message((P, 5)))
    journal.begin(2)
    journal.batch(checkpoint((Q, 1), (P, 6)), message((Q, 1), (DELETED, 9)))
    journal.begin(3)
    journal.batch(checkpoint((Q, 10), (P, 6), (DELETED, 10)))
    journal.batch(settle((Q, 0, 3), (Q, 2, 2), (Q, 8, 7)), message((Q, 5)), message((Q, 20)))
    files.unlink(journal.path(2))
    assert surveyed(files) == [Loss([QueueLoss(Q, 3, 4, 7)], is_moved=False)]


def test_damage_up_to_the_same_checkpoint_has_the_same_bounds(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    for number in (4, 5, 6, 7):
        journal.begin(number)
        journal.batch(checkpoint((Q, number)), message((Q, number)))
    files.unlink(journal.path(5))
    files.unlink(journal.path(6))
    journal.batch(message((Q, 8)))
    position = journal.batch(message((Q, 9)))
    journal.batch(message((Q, 10)))
    journal.damage(7, offset_of(position), bytes(70))
    bounded = Loss([QueueLoss(Q, 2, 5, 6)], is_moved=True)
    assert surveyed(files) == [bounded, bounded, Loss(None, is_moved=True)]
