"""Understand references to the model hub, as users type and paste them."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

from edgedec.core.errors import UsageError
from edgedec.disk.digest import sha256_hex
from edgedec.models.layout import slug
from edgedec.models.recipes import HubFile

FORMS = "owner/repo, owner/repo:Q4_K_M or hf:owner/repo/file.gguf"
_PREFIX = "hf:"
_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co")
_PART = r"[A-Za-z0-9_][\w.-]{0,95}"
_FORM = re.compile(
    rf"(?P<repo>{_PART}/{_PART})(?:@(?P<revision>[\w.-]+))?(?::(?P<quant>[\w.-]+)|/(?P<file>.+))?", re.ASCII
)
_PAGES = ("tree", "blob", "resolve", "raw")
"""Parts of a page's address between the repository and the revision."""
_MOST_NAME_CHARS = 120
_GGUF = ".gguf"


def names_hub(reference: str) -> bool:
    """Return whether a reference can only mean the hub: ``hf:``, ``hf.co/``, or an address of the web."""
    return reference.startswith(_PREFIX) or "://" in reference or _without_host(reference) is not None


def may_name_hub(reference: str) -> bool:
    """Return whether a reference is like ``owner/repo`` or ``owner/repo:QUANT``; a path may be so too."""
    found = _FORM.fullmatch(reference)
    return found is not None and not found["file"] and not found["repo"].lower().endswith(_GGUF)


def parse_hub(reference: str) -> HubFile:
    """Return the file, or the choice of a file, that a reference to the hub names. Raises UsageError.

    >>> parse_hub("hf.co/owner/repo:Q8_0")
    HubFile(repo='owner/repo', file=None, revision=None, quant='Q8_0')
    """
    text = reference.removeprefix(_PREFIX)
    if "://" in text or _without_host(text) is not None:
        text = _from_address(text, reference)
    found = _FORM.fullmatch(text)
    if found is None or ".." in text:
        raise _bad(reference)
    file, quant = found["file"], found["quant"]
    if quant and quant.lower().endswith(_GGUF):  # the name of a file, as a tag
        file, quant = quant, None
    if quant == "latest":  # Ollama's word for the usual one
        quant = None
    if file and not (file.lower().endswith(_GGUF) and all(file.split("/"))):
        raise _bad(reference)
    return HubFile(found["repo"], file, found["revision"], quant)


def hub_name(file: HubFile) -> str:
    """Return the name in the store: owner, repository, revision if named, and the file without suffix."""
    parts = [*file.repo.split("/"), *([file.revision] if file.revision else [])]
    if file.file:
        from edgedec.export.gguf_parts import part_name

        found = part_name(file.file)
        parts += (found.stem if found else file.file.removesuffix(_GGUF)).split("/")
    text = "--".join(parts)
    if len(text) <= _MOST_NAME_CHARS:
        return slug(text)
    digest = sha256_hex(text.encode())[:12]  # the end of a name has the quantisation
    return f"{slug(text)[: _MOST_NAME_CHARS - len(digest) - 1]}-{digest}"


def _without_host(text: str) -> str | None:
    """Return what follows ``hf.co/`` and the like, None without such a beginning."""
    host, slash, rest = text.partition("/")
    return rest if slash and host.lower() in _HOSTS else None


def _from_address(text: str, reference: str) -> str:
    """Return an address of the hub in the form that ``_FORM`` has."""
    if "://" in text:
        parts = urlsplit(text)
        hosts = {*_HOSTS, urlsplit(os.environ.get("HF_ENDPOINT", "")).netloc}
        if parts.scheme not in ("http", "https") or parts.netloc.lower() not in hosts:
            raise UsageError(
                f"{reference} is not on the model hub", hint=f"the forms are {FORMS}, or an address there"
            )
        path = unquote(parts.path)
    else:
        path = "/" + (_without_host(text) or "")
    owner, repo, *rest = [*path.strip("/").split("/"), ""][:2] + path.strip("/").split("/")[2:]
    if not rest:
        return f"{owner}/{repo}"
    if rest[0] not in _PAGES or len(rest) < 2:
        return "/".join((owner, repo, *rest))
    revision = "" if rest[1] == "main" else f"@{rest[1]}"
    return "/".join((f"{owner}/{repo}{revision}", *rest[2:]))


def _bad(reference: str) -> UsageError:
    return UsageError(f"{reference} is not a name on the model hub", hint=f"the forms are {FORMS}")
