"""Speak HTTP as pip does: its certificates, proxy and trusted hosts. No message holds credentials."""

from __future__ import annotations

import netrc
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from urllib.parse import unquote, urlsplit, urlunsplit

import certifi
import httpx

from edgedec.core.errors import DownloadError
from edgedec.models.sources.pip_config import PipConfig
from edgedec.remote.proxies import proxy_fault

Auth = tuple[str, str]


class RefusedError(DownloadError):
    """A server refused the file. ``status`` is the HTTP status."""

    def __init__(self, message: str, status: int, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class Web:
    """At most two HTTP clients, with and without checked certificates, opened when they are needed."""

    def __init__(self, config: PipConfig, headers: Mapping[str, str] | None = None) -> None:
        self.config = config
        self._headers = {"User-Agent": "edgedec", **(headers or {})}
        self._clients: dict[bool, httpx.Client] = {}

    def client(self, url: str) -> httpx.Client:
        """Return the client for the host of a URL."""
        checked = not self.config.trusts(url)
        if checked not in self._clients:
            self._clients[checked] = self._open(checked)
        return self._clients[checked]

    def _open(self, checked: bool) -> httpx.Client:
        try:
            return httpx.Client(
                verify=_certificates(self.config) if checked else False,
                proxy=self.config.proxy,
                timeout=self.config.timeout,
                follow_redirects=True,
                headers=self._headers,
            )
        except (OSError, ValueError, ImportError, httpx.InvalidURL) as error:
            if fault := proxy_fault(error):
                raise DownloadError(fault[0], hint=fault[1]) from None
            # Texts of these errors may quote a proxy's URL with its password.
            raise DownloadError(
                "pip's certificate or proxy settings cannot be used", hint="python -m pip config debug"
            ) from error

    def __enter__(self) -> Web:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients.values():
            client.close()


def _certificates(config: PipConfig) -> ssl.SSLContext:
    if config.cert and Path(config.cert).is_dir():
        context = ssl.create_default_context(capath=config.cert)
    elif config.cert:
        context = ssl.create_default_context(cafile=config.cert)
    else:
        context = ssl.create_default_context()
        context.load_verify_locations(certifi.where())
    if config.client_cert:
        context.load_cert_chain(config.client_cert)
    return context


def split_credentials(url: str) -> tuple[str, Auth | None]:
    """Return a URL without its credentials, and the credentials in it or in the user's netrc file."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    bare = urlunsplit(parts._replace(netloc=host))
    if parts.username is not None:
        return bare, (unquote(parts.username), unquote(parts.password or ""))
    return bare, _from_netrc(parts.hostname or "")


def _from_netrc(host: str) -> Auth | None:
    try:
        entry = netrc.netrc(os.environ.get("NETRC")).authenticators(host)
    except (OSError, netrc.NetrcParseError):
        return None
    return (entry[0], entry[2] or "") if entry else None


def host_of(url: str) -> str:
    """Return the host of a URL, for messages."""
    return urlsplit(url).hostname or url


def explain(error: httpx.HTTPError, url: str) -> str:
    """Return a line for a transport error that names the host, but neither path nor credentials."""
    host = host_of(url)
    if isinstance(error, httpx.TimeoutException):
        return f"{host} did not answer in time"
    if isinstance(error, httpx.ProxyError):
        return f"the proxy refused the connection to {host}"
    if isinstance(error, httpx.ConnectError):
        return f"cannot connect to {host}: {str(error) or 'no connection'}"
    return f"the connection to {host} broke ({type(error).__name__})"
