"""Read pip's configuration, so that a pull works wherever ``pip install`` does.

``pip config list`` merges pip's configuration files and PIP_* variables, and pip's help names the default
index. Values may hold credentials: nothing in this module prints them.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from edgedec.core.errors import DownloadError
from edgedec.core.quick_dataclass import dataclass

_LINE = re.compile(r"^(?P<section>:env:|[^.=]+)\.(?P<key>[A-Za-z0-9_-]+)=(?P<value>.*)$")
_SECTIONS = ("global", "install", "download", ":env:")
"""Sections of pip's configuration, weakest first."""
_DEFAULT_INDEX = re.compile(r"--index-url <url>.*?\(default\s+(\S+?)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PipConfig:
    """The configuration of pip. ``pip`` is the command that runs it; URLs may carry credentials."""

    pip: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    cert: str | None = None
    client_cert: str | None = None
    proxy: str | None = None
    timeout: float = 15.0
    retries: int = 5

    def trusts(self, url: str) -> bool:
        """Return whether pip trusts the URL's host without certificates (``trusted-host``, port or not)."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        return host in self.trusted_hosts or f"{host}:{parts.port}" in self.trusted_hosts


def find_pip() -> tuple[str, ...]:
    """Return the command of this environment's pip, else of that on PATH. Raises DownloadError."""
    if find_spec("pip") is not None:
        return (sys.executable, "-m", "pip")
    for name in ("pip3", "pip"):
        if found := shutil.which(name):
            return (found,)
    raise DownloadError("pip is not installed, so its package index is unknown", hint="python -m ensurepip")


def read_pip_config() -> PipConfig:
    """Run pip and return its configuration. Raises DownloadError when pip is missing or does not answer."""
    pip = find_pip()
    options = parse_config_list(_run(pip, "config", "list"))
    indexes: list[str] = []
    if options.get("no-index", "0").lower() not in ("1", "true", "yes", "on"):
        indexes.append(options.get("index-url") or default_index(_run(pip, "download", "--help")))
        indexes += options.get("extra-index-url", "").split()
    return PipConfig(
        pip=pip,
        indexes=tuple(indexes),
        find_links=tuple(options.get("find-links", "").split()),
        trusted_hosts=tuple(options.get("trusted-host", "").split()),
        cert=options.get("cert"),
        client_cert=options.get("client-cert"),
        proxy=options.get("proxy"),
        timeout=_number(options.get("timeout") or options.get("default-timeout"), 15.0),
        retries=int(_number(options.get("retries"), 5)),
    )


def parse_config_list(text: str) -> Mapping[str, str]:
    """Return the options that ``pip config list`` prints for ``pip download``: later sections win."""
    found: dict[tuple[str, str], str] = {}
    for line in text.splitlines():
        if match := _LINE.match(line.strip()):
            found[match["section"], match["key"]] = _unquote(match["value"])
    return {key: found[section, key] for section in _SECTIONS for (where, key) in found if where == section}


def default_index(help_text: str) -> str:
    """Return the index that pip uses when none is configured, from ``pip download --help``."""
    match = _DEFAULT_INDEX.search(help_text)
    if match is None:
        raise DownloadError("pip does not say which index it uses", hint="set PIP_INDEX_URL")
    return match[1]


def redact(text: str) -> str:
    """Return ``text`` without the user name and password of every URL in it."""
    return re.sub(r"(?<=://)[^/\s@]*@", "", text)


def _run(pip: tuple[str, ...], *arguments: str) -> str:
    # A wide terminal keeps URLs in the help text on one line.
    environment = {**os.environ, "COLUMNS": "4000", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUTF8": "1"}
    try:
        done = subprocess.run(
            [*pip, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=environment,
            cwd=Path.home()
            if Path.home().is_dir()
            else None,  # never import a pip.py from the current directory
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DownloadError(
            "pip does not run, so its package index is unknown", hint="python -m pip --version"
        ) from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise DownloadError(
            f"pip refused to tell its configuration: {redact(lines[-1])}", hint="python -m pip config debug"
        )
    return done.stdout


def _unquote(value: str) -> str:
    try:
        return str(ast.literal_eval(value))
    except (ValueError, SyntaxError):
        return value


def _number(text: str | None, default: float) -> float:
    try:
        return float(text) if text else default
    except ValueError:
        return default
