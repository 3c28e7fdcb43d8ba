"""Who may use an exclusive queue."""

from __future__ import annotations

import pytest

from hareline.message import Publisher
from hareline.queues.core.ownership import ClientOwner, client_owner, is_own, may_use


class Client:
    """A connection, as far as ownership goes."""

    def __init__(self, client_id: str = "") -> None:
        self.publisher = Publisher(client_id)


ANN, ANN_AGAIN, BOB, UNNAMED = Client("ann"), Client("ann"), Client("bob"), Client()


@pytest.mark.parametrize(
    ("owner", "requester", "may"),
    [
        (None, ANN, True),
        (None, None, True),
        (ANN, ANN, True),
        (ANN, ANN_AGAIN, False),
        (UNNAMED, UNNAMED, True),
        (UNNAMED, Client(), False),
        (ANN, None, False),
        (ClientOwner("ann"), ANN, True),
        (ClientOwner("ann"), ANN_AGAIN, True),
        (ClientOwner("ann"), BOB, False),
        (ClientOwner("ann"), UNNAMED, False),
        (ClientOwner("ann"), None, False),
        ("an exchange, which owns its delay queue", ANN, False),
    ],
)
def test_a_queue_is_for_its_connection_its_client_id_or_all(
    owner: object, requester: object, may: bool
) -> None:
    assert may_use(owner, requester) is may


def test_only_a_connection_with_a_client_id_has_an_owner_beside_itself() -> None:
    assert client_owner(ANN) == client_owner(ANN_AGAIN) == ClientOwner("ann")
    assert client_owner(UNNAMED) is None
    assert client_owner(None) is None


@pytest.mark.parametrize(
    ("owner", "publisher", "own"),
    [
        (ANN, ANN, True),
        (ANN, ANN_AGAIN, False),
        (ClientOwner("ann"), ANN_AGAIN, True),
        (ClientOwner("ann"), BOB, False),
        (None, ANN, False),
    ],
)
def test_a_message_is_the_owner_s_if_its_connection_or_client_id_published_it(
    owner: object, publisher: Client, own: bool
) -> None:
    assert is_own(owner, publisher.publisher) is own
