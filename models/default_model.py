"""The model of commands that name none: EDGEDEC_MODEL, the user's own choice, else the package's."""

from __future__ import annotations

import os
from pathlib import Path

from edgedec.core.errors import BadFileError, NotFoundError
from edgedec.disk.files import atomic_path, storage_errors
from edgedec.disk.home import DEFAULT
from edgedec.models.catalogue import DEFAULT_MODEL
from edgedec.models.names import exists, hub_file, looks_like_path, recipe_name, unknown
from edgedec.models.store import Store

VARIABLE = "EDGEDEC_MODEL"


def default_model(store: Store) -> str:
    """Return the model of commands that name none: EDGEDEC_MODEL, the user's choice, or the package's.

    Raises NotFoundError, with names that are near, for a value of EDGEDEC_MODEL that can be no model.
    """
    if name := os.environ.get(VARIABLE, "").strip():
        try:
            return _checked(name, store)
        except NotFoundError as error:
            raise error.reworded(f"{VARIABLE}: {error.message}") from error
    return _kept(store.home) or DEFAULT_MODEL


def _kept(home: Path) -> str:
    path = home / DEFAULT
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise BadFileError(f"{path} cannot be read as text", hint="choose a default again") from error


def keep_default(name: str, store: Store) -> str:
    """Keep a model as the default of commands; return its name, or its path in full.

    Raises NotFoundError, with names that are near, for one that can be none.
    """
    chosen = _checked(name, store)
    with storage_errors(str(store.home / DEFAULT)):
        store.home.mkdir(parents=True, exist_ok=True)
        with atomic_path(store.home / DEFAULT) as path:
            path.write_text(chosen + "\n", encoding="utf-8", newline="\n")
    return chosen


def _checked(name: str, store: Store) -> str:
    if recipe := recipe_name(name):
        return recipe
    installed = [one.name for one in store.list()]
    if name in installed:
        return name
    if looks_like_path(name) or exists(name):
        if not exists(str(Path(name).expanduser())):
            raise NotFoundError(f"no such file or directory: {name}")
        return str(Path(name).expanduser().resolve())
    if hub_file(name):
        return name
    raise unknown(name, installed)
