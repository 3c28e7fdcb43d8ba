"""Hareline, an AMQP 0-9-1 message broker.

``hareline serve`` runs it as a daemon; ``hareline.testing.running_broker`` runs it inside a test.
"""

from __future__ import annotations

__version__ = "0.1.0"
