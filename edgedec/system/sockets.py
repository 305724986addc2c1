"""Sockets that listen."""

from __future__ import annotations

import socket


def claim_port(listening: socket.socket) -> None:
    """Let a socket have a port that an earlier one has just left, and share it with no other.

    Windows has an option of its own for that: with the usual one, two servers would have the same port.
    """
    option = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
    listening.setsockopt(socket.SOL_SOCKET, option, 1)
