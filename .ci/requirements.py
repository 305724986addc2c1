"""Print the requirements of extras, a line each: `python .ci/requirements.py train gguf`.

`pip install -e '.[train,gguf]'` would compile the kernels again.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

TORCH = "torch==2.13.0"
"""The one torch of a run: nothing that is installed later may bring another."""


def requirements(names: list[str]) -> list[str]:
    with (Path(__file__).parents[1] / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    known = project["optional-dependencies"]
    own = {f"{project['name']}[{name}]": name for name in known}

    def lines(name: str) -> list[str]:
        """Return the lines of an extra, those of extras that it names in their places."""
        return [one for line in known[name] for one in (lines(own[line]) if line in own else [line])]

    found = [line for name in names for line in lines(name)]
    return [TORCH if line.startswith("torch") else line for line in found]


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
