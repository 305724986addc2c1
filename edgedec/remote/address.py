"""The server that the user named, and the key for it."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Self
from urllib.parse import urlsplit

from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass

KEY_VARIABLE = "EDGEDEC_REMOTE_KEY"
"""The environment variable that holds the key. There is no other way to give one."""
_MOST_KEY_CHARS = 4096
_LEAST_SECRET_CHARS = 6
"""A shorter key, as local servers take any, may be a word of a reply."""
_HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The root of a server's API, such as ``http://127.0.0.1:8080/v1``, and the key that it asks for.

    The key is never part of a text of this object.
    """

    root: str
    host: str
    key: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str, environment: Mapping[str, str] = os.environ) -> Self:
        """Read a URL; without a path it gets ``/v1``. The key comes from ``environment``.

        Raises UsageError for a URL that holds a password or a query, for a key that no header can have, and
        for a key that would go unencrypted to another machine.
        """
        try:
            parts = urlsplit(url.strip())
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise _not_an_address(url) from error
        if parts.scheme not in ("http", "https") or not host or not url.isprintable():
            raise _not_an_address(url)
        if parts.username is not None or parts.password is not None:
            raise UsageError(
                "an address of a server holds no password", hint=f"put the key into {KEY_VARIABLE}"
            )
        if parts.query or parts.fragment:
            raise UsageError(f"the address of {host} has a part after its path", hint="leave out ? and #")
        key = _key(environment)
        if key and parts.scheme == "http" and not is_loopback(host):
            raise UsageError(
                f"the key would go to {host} unencrypted",
                hint=f"use an https address or a tunnel, or leave {KEY_VARIABLE} unset",
            )
        shown = f"[{host}]" if ":" in host else host
        path = parts.path.rstrip("/") or "/v1"
        return cls(f"{parts.scheme}://{shown}{f':{port}' if port else ''}{path}", host, key)

    @property
    def secret(self) -> str:
        """The key where it is one; empty for none, and for one that protects nothing."""
        return self.key if self.key and len(self.key) >= _LEAST_SECRET_CHARS else ""

    @property
    def local(self) -> bool:
        """Whether the server is on this machine, where no proxy is asked."""
        return is_loopback(self.host)

    def without_key(self, text: str) -> str:
        """Return ``text`` with the key, which servers may quote in any case, made unreadable."""
        return re.sub(re.escape(self.secret), _HIDDEN, text, flags=re.IGNORECASE) if self.secret else text


def is_loopback(host: str) -> bool:
    """Return whether a host, as a URL names it, is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _key(environment: Mapping[str, str]) -> str | None:
    key = environment.get(KEY_VARIABLE, "").strip()
    if not (key.isascii() and key.isprintable() and len(key) <= _MOST_KEY_CHARS):
        raise UsageError(f"{KEY_VARIABLE} holds no key that can be sent", hint="a key is one line of ASCII")
    return key or None


def _not_an_address(url: str) -> UsageError:
    return UsageError(f"{url!r:.80} is no address of a server", hint="as in http://127.0.0.1:8080/v1")
