"""Users, permissions, virtual hosts, limits, policies and parameters, changed at run time."""

from __future__ import annotations

from hareline.administration.administration import Administration
from hareline.administration.checks import AdministrationError

__all__ = ["Administration", "AdministrationError"]
