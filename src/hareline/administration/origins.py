"""Users, virtual hosts and limits that the settings name, and so decide.

They are not changed at run time: docs/decisions/0016-settings-and-run-time.md. The user and the
virtual host of a broker whose settings name none are *defaults*, which can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hareline.administration.checks import AdministrationError
from hareline.auth.users import User


@dataclass(frozen=True, slots=True)
class VhostOrigin:
    """A virtual host of the settings; limits are None where they set none."""

    max_connections: int | None = None
    max_queues: int | None = None
    is_traced: bool = False
    max_exchanges: int | None = None
    max_bindings: int | None = None

    @property
    def limits(self) -> dict[str, int]:
        """The limits that the settings set, by their names at run time."""
        given = {
            "max-connections": self.max_connections,
            "max-queues": self.max_queues,
            "max-exchanges": self.max_exchanges,
            "max-bindings": self.max_bindings,
        }
        return {limit: value for limit, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Origins:
    """``where``: the settings file by its path, or another word for it.

    ``users``, ``vhosts``: those of the settings or, where the flag says so, the defaults.
    ``names_cluster``: the settings have the option ``identity.cluster_name``.
    """

    where: str = "the settings"
    users: Mapping[str, User] = field(default_factory=dict)
    vhosts: Mapping[str, VhostOrigin] = field(default_factory=dict)
    are_users_default: bool = False
    are_vhosts_default: bool = False
    names_cluster: bool = False

    def fixes_user(self, name: str) -> bool:
        """True if the settings decide what this user is."""
        return name in self.users and not self.are_users_default

    def fixes_vhost(self, name: str) -> bool:
        """True if the settings decide that this virtual host exists."""
        return name in self.vhosts and not self.are_vhosts_default

    def user_is_fixed(self, name: str) -> AdministrationError:
        """The refusal to change a user of the settings."""
        return self._fixed(f"user '{name}'", "[[users]]")

    def vhost_is_fixed(self, name: str) -> AdministrationError:
        """The refusal to delete a virtual host of the settings."""
        return self._fixed(f"virtual host '{name}'", "[[vhosts]]")

    def limit_is_fixed(self, name: str, limit: str) -> AdministrationError:
        """The refusal to change a limit that the settings set."""
        option = limit.replace("-", "_")
        return self._fixed(f"{limit} of virtual host '{name}'", f"[[vhosts]] {option}")

    def tracing_is_fixed(self, name: str) -> AdministrationError:
        """The refusal to switch off a firehose that the settings switch on."""
        return self._fixed(f"tracing of virtual host '{name}'", "[[vhosts]] tracing")

    def permission_is_fixed(self, user: str, vhost: str) -> AdministrationError:
        """The refusal to change permissions that the settings give."""
        what = f"permissions of user '{user}' in virtual host '{vhost}'"
        return self._fixed(what, "[[users.permissions]]")

    def cluster_name_is_fixed(self) -> AdministrationError:
        """The refusal to rename a cluster that the settings name."""
        return self._fixed("name of the cluster", "[identity] cluster_name")

    def _fixed(self, what: str, option: str) -> AdministrationError:
        return AdministrationError(
            "conflict",
            f"{what}: set by {self.where} under {option}, so it can only be changed there",
        )
