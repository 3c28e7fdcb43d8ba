"""What the channels of one connection share: its parts, made once by ``amqp.connection``."""

from __future__ import annotations

from dataclasses import dataclass

from hareline.amqp.backlog import Backlogs
from hareline.amqp.client import Client
from hareline.amqp.context import Context
from hareline.amqp.flow_control import ConnectionFlow
from hareline.amqp.input_gate import InputGate
from hareline.amqp.output import Output
from hareline.amqp.ports import Transport


@dataclass(frozen=True, slots=True)
class ConnectionParts:
    """``context`` is the broker's, the others are the connection's."""

    context: Context
    transport: Transport
    client: Client
    gate: InputGate
    output: Output
    flow: ConnectionFlow
    backlogs: Backlogs
