"""Administration at run time: the only writer of users, virtual hosts, policies and parameters.

A change is durable first, then in memory, where it reaches open connections and existing queues,
then told to the listeners.
"""

from __future__ import annotations

from collections.abc import Callable

from hareline.administration.changes import Changes
from hareline.administration.origins import Origins
from hareline.administration.parameters import ClusterName, Parameters
from hareline.administration.policies import Policies
from hareline.administration.users import Users
from hareline.administration.vhosts import Vhosts
from hareline.amqp.context import Context
from hareline.broker.vhost import VirtualHost
from hareline.storage.administration import AdministrationStore


class Administration:
    """``changes`` writes for all parts; ``on_event`` are the listeners."""

    def __init__(
        self,
        context: Context,
        store: AdministrationStore,
        origins: Origins,
        make_vhost: Callable[[str], VirtualHost],
    ) -> None:
        """``make_vhost``: has a new virtual host of this name served. Raises StoreError."""
        self._context = context
        self._make_vhost = make_vhost
        changes = self.changes = Changes(store)
        self.on_event = changes.on_event
        self.users = Users(context, changes, origins)
        self.policies = Policies(context, changes)
        self.vhosts = Vhosts(context, changes, origins, self._make, self._forget)
        self.parameters = Parameters(changes, self.vhosts)
        self.cluster_name = ClusterName(context, self.parameters, origins)
        self.on_event.append(self.cluster_name.on_event)

    def start(self) -> None:
        """Give users and virtual hosts what was set of them; all of these are there by now."""
        self.users.compose_all()
        self.vhosts.apply_all()
        self.cluster_name.apply()
        for vhost in self._context.vhosts.values():
            self.policies.attach(vhost)

    def reload(self, origins: Origins) -> None:
        """Take over what the settings name now; virtual hosts that are new are there by now."""
        known = self.vhosts.origins.vhosts.keys()
        self.users.origins = self.vhosts.origins = origins
        self.users.compose_all()
        self.vhosts.apply_all()
        for name in origins.vhosts.keys() - known:
            vhost = self._context.vhosts.get(name)
            if vhost is not None:
                self.policies.attach(vhost)

    def _make(self, name: str) -> VirtualHost:
        vhost = self._make_vhost(name)
        self.policies.attach(vhost)
        return vhost

    def _forget(self, name: str) -> None:
        self.users.forget_vhost(name)
        self.policies.forget_vhost(name)
        self.parameters.forget_vhost(name)
