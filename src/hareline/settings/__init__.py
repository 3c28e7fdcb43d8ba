"""Settings: the options, where their values come from (``sources``), and their ``reference``.

The CLI and the server use them; every layer below is handed plain values.
"""

from __future__ import annotations

from hareline.settings.access import Auth, ExternalUser, Permission, User
from hareline.settings.authorities import HttpAuth, Ldap, LdapGroup, OAuth
from hareline.settings.limits import Limits
from hareline.settings.network import (
    Events,
    FurtherListener,
    Identity,
    Listener,
    Management,
    Metrics,
    Tls,
    TlsCertificate,
    WebSocket,
)
from hareline.settings.options import (
    Log,
    Settings,
    Shutdown,
    changed_options,
    leaf_options,
    restart_options,
    value_of,
)
from hareline.settings.resources import Disk, Journal, Memory, Storage
from hareline.settings.section import reload_of
from hareline.settings.sources import (
    Flag,
    Reading,
    config_path,
    load_settings,
    read_settings,
    variable_of,
)
from hareline.settings.vhosts import VirtualHost

__all__ = [
    "Auth",
    "Disk",
    "Events",
    "ExternalUser",
    "Flag",
    "FurtherListener",
    "HttpAuth",
    "Identity",
    "Journal",
    "Ldap",
    "LdapGroup",
    "Limits",
    "Listener",
    "Log",
    "Management",
    "Memory",
    "Metrics",
    "OAuth",
    "Permission",
    "Reading",
    "Settings",
    "Shutdown",
    "Storage",
    "Tls",
    "TlsCertificate",
    "User",
    "VirtualHost",
    "WebSocket",
    "changed_options",
    "config_path",
    "leaf_options",
    "load_settings",
    "read_settings",
    "reload_of",
    "restart_options",
    "value_of",
    "variable_of",
]
