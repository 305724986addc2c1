"""The model hub through huggingface_hub, against a loopback server that answers as the hub does.

huggingface_hub reads HF_ENDPOINT when it is imported, so every pull runs in a process of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import warm
from tests.models.conftest import tree
from tests.models.site import Site, serving

DATA = random.Random(3).randbytes(500_000)
FILE = "/owner/repo/resolve/main/folder/m.gguf"
REFERENCE = "hf:owner/repo/folder/m.gguf"
BUNDLE = ["models/owner--repo--folder--m/manifest.json", "models/owner--repo--folder--m/weights.bin"]

PROGRAM = """
import json, sys
from pathlib import Path
import edgedec.export
from edgedec.core.errors import EdgeDecError
from edgedec.models import Store
from tests.models.conftest import write_bundle

seen = []

def export_gguf(source, out, *, name=None, card=None, progress=None):
    seen.append(dict(card.provenance))
    return write_bundle(out, source, name, card.provenance)

edgedec.export.export_gguf = export_gguf
stages, notices = [], []
home, reference, force = Path(sys.argv[1]), sys.argv[2], sys.argv[3:] == ["force"]
try:
    store = Store(home, notice=notices.append)
    path = store.pull(reference, force=force, progress=lambda *step: stages.append(step))
    answer = {"path": path.name, "provenance": seen, "last": stages[-1] if stages else None}
except EdgeDecError as error:
    answer = {"error": type(error).__name__, "status": error.exit_code, "text": str(error)}
print(json.dumps({**answer, "notices": notices}))
"""


@dataclass
class Hub:
    """The site with ``owner/repo`` on it, and a way to pull from it."""

    site: Site
    home: Path
    environment: dict[str, str]

    def pull(self, reference: str = REFERENCE, *options: str, **environment: str) -> dict[str, Any]:
        """Pull in a new process; the option ``force`` does so again."""
        whole = {**self.environment, **environment}
        done = warm.run(PROGRAM, str(self.home), reference, *options, env=whole, code=True)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


@pytest.fixture
def hub(site: Site, tmp_path: Path) -> Hub:
    site.files[FILE] = DATA
    site.headers["X-Repo-Commit"] = "0" * 40
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment = {
        **clean,
        "HF_ENDPOINT": site.url,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_ETAG_TIMEOUT": "2",
        "HF_HUB_DOWNLOAD_TIMEOUT": "2",
        "NO_PROXY": "127.0.0.1",
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }
    return Hub(site, tmp_path / "home", environment)


def test_a_file_is_fetched_verified_and_exported(hub: Hub) -> None:
    answer = hub.pull()
    assert answer == {
        "path": "owner--repo--folder--m",
        "provenance": [
            {
                "kind": "model hub",
                "origin": REFERENCE,
                "repo": "owner/repo",
                "repo_file": "folder/m.gguf",
                "revision": "0" * 40,
            }
        ],
        "last": ["download", len(DATA), len(DATA)],
        "notices": [],
    }
    assert tree(hub.home) == BUNDLE
    manifest = json.loads((hub.home / BUNDLE[0]).read_text())
    assert manifest["sha256"] == hashlib.sha256(DATA).hexdigest()
    before = len(hub.site.requests)
    assert hub.pull()["path"] == "owner--repo--folder--m"
    assert len(hub.site.requests) == before


def test_a_broken_connection_is_continued_with_range(hub: Hub) -> None:
    hub.site.script[FILE] = deque([("drop", 200_000)])
    assert hub.pull()["path"] == "owner--repo--folder--m"
    assert [request.headers.get("range") for request in hub.site.of(FILE)] == [None, "bytes=200000-"]
    assert sum(request.sent for request in hub.site.of(FILE)) == len(DATA)
    assert tree(hub.home) == BUNDLE


def test_the_token_goes_to_the_hub_but_not_to_where_it_redirects(hub: Hub) -> None:
    with serving(Site(files={"/cdn": DATA})) as cdn:
        hub.site.script[FILE] = deque([("redirect", f"{cdn.url}/cdn")])
        assert hub.pull(HF_TOKEN="hf_secret")["path"] == "owner--repo--folder--m"
        assert hub.site.of(FILE)[0].headers["authorization"] == "Bearer hf_secret"
        (request,) = cdn.of("/cdn")
    assert "authorization" not in request.headers


def test_a_file_that_does_not_match_its_etag_is_refused(hub: Hub) -> None:
    other = bytearray(DATA)
    other[1000] ^= 1
    hub.site.headers["X-Linked-Etag"] = f'"{hashlib.sha256(bytes(other)).hexdigest()}"'
    answer = hub.pull()
    assert answer["error"] == "BadFileError"
    assert not [name for name in tree(hub.home) if name.endswith(".gguf")]


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        ("RepoNotFound", "NoRepositoryError", "owner/repo does not exist"),
        ("EntryNotFound", "NotFoundError", "has no file folder/m.gguf"),
        ("GatedRepo", "DownloadError", "is gated"),
        ("RevisionNotFound", "NotFoundError", "has no revision main"),
    ],
)
def test_refusals_are_one_line(hub: Hub, code: str, error: str, text: str) -> None:
    del hub.site.files[FILE]
    hub.site.headers["X-Error-Code"] = code
    hub.site.headers["X-Error-Message"] = "no"
    answer = hub.pull()
    assert answer["error"] == error
    assert text in str(answer["text"])
    assert "\n" not in str(answer["text"])
    assert tree(hub.home) == []


def test_private_or_missing(hub: Hub) -> None:
    hub.site.password = "someone:else"
    answer = hub.pull()
    assert (answer["error"], "HF_TOKEN" in str(answer["text"])) == ("NoRepositoryError", True)


@pytest.mark.parametrize("environment", [{"HF_ENDPOINT": "http://127.0.0.1:9"}, {"HF_HUB_OFFLINE": "1"}])
def test_offline(hub: Hub, environment: dict[str, str]) -> None:
    answer = hub.pull(**environment)
    assert answer["error"] == "UnreachableError"
    assert "cannot be reached" in str(answer["text"])
    assert tree(hub.home) == []
