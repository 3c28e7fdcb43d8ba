"""Options of what stands before AMQP on the port of HTTP: WebSocket."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from hareline.settings.section import Section, option
from hareline.settings.values import InWords

EVERY_ORIGIN: Final = "*"
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s?#@]+", re.ASCII)


def _origins(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if value != EVERY_ORIGIN and _ORIGIN.fullmatch(value.lower()) is None:
            raise PydanticCustomError(
                "origin",
                "'{value}' should be an origin such as https://shop.example, or *",
                {"value": value},
            )
    return values


Origins = Annotated[
    tuple[str, ...], AfterValidator(_origins), InWords("list of origins such as https://a.example")
]


class WebSocket(Section):
    """AMQP over WebSocket, at /ws/amqp on the port of HTTP."""

    enabled: bool = option(True, "Whether clients may connect by WebSocket.")
    origins: Origins = option(
        (),
        "Sites whose pages may connect: scheme, host and port as a browser names them, such as "
        "https://shop.example; * for all. Programs and pages of the broker's own port always may.",
        reload="live",
    )
