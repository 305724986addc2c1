"""The user's folders where each system has them; names of libraries and programs; words of a command line.

platformdirs knows more of them, and takes longer to import than a start has for it.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

_PLAIN = re.compile(r"[-\w./\\:+=@\[\]]+")
"""Words that cmd.exe and PowerShell take as they are."""


def cache_folder(system: str = sys.platform) -> Path:
    """Return the folder for what can be made or fetched again. On Windows it stays on this device."""
    if system == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if system == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def scripts_folder(system: str = sys.platform) -> Path:
    """Return the folder of this Python environment's programs."""
    return Path(sys.prefix) / ("Scripts" if system == "win32" else "bin")


def local_path(text: str, system: str = sys.platform) -> Path:
    """Return the path in a ``file:`` address, where a drive of Windows has a slash before it."""
    return Path(text[1:] if system == "win32" and text[2:3] == ":" else text)


def library_name(stem: str, system: str = sys.platform) -> str:
    """Return the file name of the dynamic library ``stem``."""
    if system == "win32":
        return f"{stem}.dll"
    return f"lib{stem}.dylib" if system == "darwin" else f"lib{stem}.so"


def versioned_names(stem: str, system: str = sys.platform) -> str:
    """Return the pattern of file names of the dynamic library ``stem`` with a version in them."""
    if system == "win32":
        return f"{stem}.dll"
    return f"lib{stem}*.dylib" if system == "darwin" else f"lib{stem}.so.*"


def program_name(stem: str, system: str = sys.platform) -> str:
    """Return the file name of the program ``stem``."""
    return f"{stem}.exe" if system == "win32" else stem


def quoted(word: str, system: str = sys.platform) -> str:
    """Return a word as the user types it in a command line: of a POSIX shell, or of cmd.exe and PowerShell.

    Both of Windows read double quotes, and neither single ones as the other does. Names of files have none.
    """
    if system != "win32":
        return shlex.quote(word)
    if _PLAIN.fullmatch(word):
        return word
    behind = len(word) - len(word.rstrip("\\"))  # programs read a backslash before the quote as one of two
    return f'"{word}{word[len(word) - behind :]}"'
