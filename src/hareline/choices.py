"""Choices that an option of the settings and a flag of the command line have in common.

They are not in ``hareline.settings`` because that imports pydantic, which takes longer than parsing
a command line.
"""

from __future__ import annotations

from typing import Literal

HashingAlgorithm = Literal["argon2id", "sha256", "sha512", "md5"]
LogLevel = Literal["debug", "info", "warning", "error", "critical"]
