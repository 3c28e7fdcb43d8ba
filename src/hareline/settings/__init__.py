"""Settings: the options (``options``), where their values come from (``sources``), and what is
written about them (``reference``).

The CLI and the server use them; every layer below is handed plain values.
"""

from __future__ import annotations

from hareline.settings.options import (
    Auth,
    Disk,
    FurtherListener,
    Identity,
    Journal,
    Limits,
    Listener,
    Log,
    Management,
    Memory,
    Permission,
    Settings,
    Shutdown,
    Storage,
    User,
    VirtualHost,
    changed_options,
    leaf_options,
    reload_of,
    restart_options,
    value_of,
)
from hareline.settings.sources import (
    Flag,
    Reading,
    config_path,
    load_settings,
    read_settings,
    variable_of,
)

__all__ = [
    "Auth",
    "Disk",
    "Flag",
    "FurtherListener",
    "Identity",
    "Journal",
    "Limits",
    "Listener",
    "Log",
    "Management",
    "Memory",
    "Permission",
    "Reading",
    "Settings",
    "Shutdown",
    "Storage",
    "User",
    "VirtualHost",
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
