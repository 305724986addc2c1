"""``edgedec chat`` with a parrot: ``python -m tests.cli.window.parrot_chat FOLDER JSON OPTION...``.

JSON has the replies, and the seconds that the parrot takes for each token.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from edgedec.cli.app import app
from tests.cli.support import Home
from tests.session.parrot import Parrot


def main(folder: Path, replies: list[str], wait_s: float, options: list[str]) -> None:
    home = Home(folder / "home")
    model = home.parrot(*replies, capacity=4000)
    assert isinstance(model.forward, Parrot)
    model.forward.before_pass = lambda: time.sleep(wait_s)
    services = home.services(model, interactive=lambda: True)
    app.main(["chat", *options], obj=services, standalone_mode=False)


if __name__ == "__main__":
    given = json.loads(sys.argv[2])
    main(Path(sys.argv[1]), given["replies"], given["wait_s"], sys.argv[3:])
