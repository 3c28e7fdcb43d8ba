"""A stepped broker with an administration, over real tables where a test gives a path.

``Listener`` keeps what the administration told. Invariant: nothing here has a socket or a loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hareline.administration import Administration
from hareline.administration.origins import Origins
from hareline.broker.vhost import VirtualHost
from hareline.clock import ManualClock
from hareline.storage.administration import AdministrationStore
from hareline.storage.definitions.schema import FILE_NAME
from hareline.storage.definitions.sqlite import SqliteDefinitions
from tests.unit.amqp.peer import SteppedBroker


class Administered(SteppedBroker):
    """``told``: events with their fields. ``definitions``: in a file below ``directory``, if any.

    The virtual host "/" and the user "guest" are those of the origins, as their defaults.
    """

    def __init__(
        self,
        directory: Path | None = None,
        origins: Origins | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        self.sqlite = None if directory is None else SqliteDefinitions(directory / FILE_NAME)
        super().__init__(definitions=self.sqlite, clock=clock)
        store: AdministrationStore = AdministrationStore()
        if self.sqlite is not None:
            store = self.sqlite.administration
        if origins is None:
            guest = self.users.lookup("guest")
            assert guest is not None
            origins = Origins(users={"guest": guest}, are_users_default=True)
        self.told: list[tuple[str, Mapping[str, Any]]] = []
        self.administration = Administration(self.context, store, origins, self._make_vhost)
        for name in self.administration.vhosts.own_names():
            self.add_vhost(name)
        self.administration.on_event.append(lambda event, fields: self.told.append((event, fields)))
        self.administration.start()

    def _make_vhost(self, name: str) -> VirtualHost:
        return self.add_vhost(name)

    def events(self) -> list[str]:
        """The names of what was told since the last call."""
        told = [event for event, _ in self.told]
        self.told.clear()
        return told

    def close(self) -> None:
        """Close the file, as the end of a broker does."""
        if self.sqlite is not None:
            self.sqlite.close()
