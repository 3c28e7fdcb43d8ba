"""Rules of names that exchange.* and queue.* share."""

from __future__ import annotations

from hareline.errors import AccessRefused


def clean_name(name: str) -> str:
    """The name without CR and LF, as RabbitMQ has it where names are declared, deleted or bound."""
    return name.replace("\r", "").replace("\n", "")


def refuse_default_exchange(*names: str) -> None:
    """Raise AccessRefused if one of these names is the default exchange's."""
    if "" in names:
        raise AccessRefused("operation not permitted on the default exchange")
