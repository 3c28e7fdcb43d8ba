"""Daemon of Python workers for Spark; lets a worker end quietly whose rows Spark no longer takes.

A query with ``limit(5)`` closes the connection of its worker as soon as it has five rows, for
which Spark's own daemon prints a traceback. ``session`` sets this one on the driver's machine.
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
