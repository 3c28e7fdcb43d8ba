"""Starts Python workers for Spark, and lets one end quietly whose rows Spark takes no more of.

A query with ``limit(5)`` closes the connection of its worker as soon as it has five rows. Spark's
own daemon prints a traceback for that. ``session`` has Spark run this one on the driver's machine.
"""

from __future__ import annotations

import socket

from pyspark import daemon

_serve = daemon.worker


def serve(sock: socket.socket, authenticated: bool) -> int:
    """Do the work of a worker; the status is 1 if Spark has closed the connection."""
    try:
        status: int = _serve(sock, authenticated)
    except BrokenPipeError:
        return 1
    return status


if __name__ == "__main__":
    daemon.worker = serve
    daemon.manager()
