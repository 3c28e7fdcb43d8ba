"""Words that a queue and its parts share: why entries leave, what it takes, what it keeps.

A leaf: imports nothing of ours, so that the store, policies and the protocol side can use it too.
"""

from __future__ import annotations

from typing import Final, Literal

# Why an entry leaves without having been accepted; the first four are RabbitMQ's words in x-death.
DeathReason = Literal[
    "rejected", "expired", "maxlen", "delivery_limit", "replaced", "deleted", "retention"
]

NO_DELIVERY_LIMIT: Final = -1

# What a queue has done with a new message (``Queue.put``); only what is refused is false.
REFUSED: Final = 0
TAKEN: Final = 1
DISCARDED: Final = 2
DUPLICATE: Final = 3

# Why a delivery came back (``Queue.release``); a delayed retry goes by these bits.
SHOWN: Final = 0  # an operator has only looked at it
RETURNED: Final = 1  # basic.nack, basic.recover, tx.rollback of Qpid's clients, consumer timeout
REJECTED: Final = 2  # basic.reject
LOST: Final = 4  # its channel or its connection has ended

# Which messages of a queue go to the store (``Queue.keeps``).
KEEPS_NONE: Final = 0
KEEPS_PERSISTENT: Final = 1
KEEPS_ALL: Final = 2
