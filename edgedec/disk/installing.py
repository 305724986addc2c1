"""Commands that install EdgeDec again, or an extra of it, from where this installation came from.

The package index has no release of it, so its name alone installs nothing: a clone, a wheel or a repository
is named. pip leaves the place in ``direct_url.json``; without that file an index was the source.
"""

from __future__ import annotations

import json
import re
import shutil
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

from edgedec.system.places import local_path, program_name, quoted, scripts_folder

NAME = "edgedec-runtime"
"""The distribution; the import and the command are called ``edgedec``."""
_EXTRA = re.compile(r"\s*;\s*extra\s*==\s*[\"']([-\w]+)[\"']\s*$")


def pip_install(extra: str, *others: str) -> str:
    """Return the command that adds an extra, and ``others``, to this installation.

    Where the clone or the wheel has gone, that installs what the extra would bring.
    """
    source = _source()
    packages = _brought_by(extra) if source is None else [*source[:-1], _with_extra(source[-1], extra)]
    return " ".join([_pip(), "install", *others, *map(quoted, packages)])


def pip_reinstall() -> str:
    """Return the command that puts this installation in order again; where its source is gone, in words."""
    source = _source()
    if source is None:
        return "get its clone or wheel again, and install that"
    return " ".join([_pip(), "install --force-reinstall --no-deps", *map(quoted, source)])


def clone() -> Path | None:
    """Return the folder of sources from which this was installed; None where there is none."""
    source = _source()
    return Path(source[-1]) if source is not None and Path(source[-1]).is_dir() else None


def _with_extra(source: str, extra: str) -> str:
    return source.replace(" @", f"[{extra}] @", 1) if source.startswith(f"{NAME} @") else f"{source}[{extra}]"


def _source() -> list[str] | None:
    """Return the arguments that install this distribution; None where what they would name has gone."""
    try:
        text = metadata.distribution(NAME).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return ["."]  # a clone that is not installed
    if text is None:
        return [NAME]
    origin = json.loads(text)
    url = str(origin["url"])
    if (kind := origin.get("vcs_info")) is not None:
        return [f"{NAME} @ {kind['vcs']}+{url}"]
    if not url.startswith("file:"):
        return [f"{NAME} @ {url}"]
    place = local_path(unquote(urlsplit(url).path))
    if not place.exists():
        return None
    editable = ["-e"] if origin.get("dir_info", {}).get("editable") else []
    return [*editable, "." if place == Path.cwd() else str(place)]


def _brought_by(extra: str) -> list[str]:
    found = [(one, _EXTRA.search(one)) for one in metadata.requires(NAME) or ()]
    return [one[: match.start()] for one, match in found if match and match[1] == extra]


def _pip() -> str:
    """Return the pip of this environment: its name where that is on the path, else its place."""
    own = scripts_folder() / program_name("pip")
    found = shutil.which("pip")
    if not own.is_file() or (found and Path(found).parent == own.parent):
        return "pip"
    here = Path.cwd()
    return quoted(str(own.relative_to(here) if own.is_relative_to(here) else own))
