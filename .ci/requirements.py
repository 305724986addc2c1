"""Print requirements of EdgeDec, a line each: `python .ci/requirements.py build`, or `base test train`.

pip installs dependencies with a package only; `.ci/run` installs them while the package compiles.
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from pathlib import Path

TOOLS = ("cmake", "ninja")
TORCH = "torch==2.13.0"
"""The one torch of a run: nothing that is installed later may bring another."""


def requirements(names: list[str]) -> list[str]:
    with (Path(__file__).parents[1] / "pyproject.toml").open("rb") as file:
        settings = tomllib.load(file)
    project = settings["project"]
    known = {
        "build": [*settings["build-system"]["requires"], *(tool for tool in TOOLS if not shutil.which(tool))],
        "base": project["dependencies"],
        **project["optional-dependencies"],
    }
    own = {f"{project['name']}[{name}]": name for name in known}

    def lines(name: str) -> list[str]:
        """Return the lines of an extra, those of extras that it names in their places."""
        return [one for line in known[name] for one in (lines(own[line]) if line in own else [line])]

    found = [line for name in names for line in lines(name)]
    return [TORCH if line.startswith("torch") else line for line in found]


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
