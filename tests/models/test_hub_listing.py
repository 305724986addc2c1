"""Names of repositories of the model hub, against a loopback server that lists them as the hub does."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from pathlib import Path

import pytest

from tests.models.conftest import tree
from tests.models.test_hub import DATA, Hub, hub

__all__ = ["hub"]

OTHER = DATA[::-1]
FILES = {"README.md": b"text", "m-Q8_0.gguf": OTHER, "m-Q4_K_M.gguf": DATA, "mmproj-m.gguf": b"side"}
NAME = "owner--repo--m-Q4_K_M"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("reference", ["owner/repo", "hf.co/owner/repo", "hf:owner/repo:q4_k_m"])
def test_the_bare_name_gets_q4_k_m_and_is_pinned(hub: Hub, reference: str) -> None:
    commit = hub.site.add_repository("owner/repo", FILES)
    answer = hub.pull(reference)
    assert answer["path"] == NAME
    assert answer["provenance"] == [
        {
            "kind": "model hub",
            "origin": "hf:owner/repo/m-Q4_K_M.gguf",
            "repo": "owner/repo",
            "repo_file": "m-Q4_K_M.gguf",
            "revision": commit,
            "chosen": "by order",
            "licence": "apache-2.0",
            "licence_url": "https://huggingface.co/owner/repo",
        }
    ]
    assert f"{NAME}, 500.0 kB; licence: apache-2.0, https://huggingface.co/owner/repo" in answer["notices"]
    manifest = json.loads((hub.home / "models" / NAME / "manifest.json").read_text())
    assert manifest["sha256"] == sha256(DATA)
    assert {request.path for request in hub.site.requests} == {
        "/api/models/owner/repo",
        f"/owner/repo/resolve/{commit}/m-Q4_K_M.gguf",
    }


def test_what_is_installed_needs_no_hub_under_any_of_its_names(hub: Hub) -> None:
    hub.site.add_repository("owner/repo", {"m-Q8_0.gguf": OTHER, "m-Q5_1.gguf": DATA})
    assert hub.pull("owner/repo")["path"] == "owner--repo--m-Q5_1"
    before = len(hub.site.requests)
    for reference in ("owner/repo", "Owner/Repo:q5_1", "hf:owner/repo/m-Q5_1.gguf"):
        assert hub.pull(reference)["path"] == "owner--repo--m-Q5_1"
    assert len(hub.site.requests) == before
    assert hub.pull("owner/repo:Q8_0")["path"] == "owner--repo--m-Q8_0"
    assert len(hub.site.requests) > before


PARTS = {f"Q8_0/m-Q8_0-0000{number}-of-00003.gguf": DATA[number:] for number in (1, 2, 3)}


@pytest.mark.parametrize("reference", ["owner/repo:Q8_0", f"hf:owner/repo/{list(PARTS)[1]}"])
def test_a_model_in_parts_is_fetched_whole(hub: Hub, reference: str) -> None:
    """By its quantisation or the name of any part; the first part stands for the model."""
    commit = hub.site.add_repository("owner/repo", {"m-Q4_K_M.gguf": DATA, **PARTS})
    answer = hub.pull(reference)
    name = "owner--repo--Q8_0--m-Q8_0"
    assert answer["path"] == name
    (provenance,) = answer["provenance"]
    assert (provenance["repo_file"], provenance["revision"]) == (next(iter(PARTS)), commit)
    assert answer["last"] == ["download", sum(map(len, PARTS.values())), sum(map(len, PARTS.values()))]
    assert f"{name}, 1.5 MB; licence: apache-2.0, https://huggingface.co/owner/repo" in answer["notices"]
    assert {request.path for request in hub.site.requests} == {
        "/api/models/owner/repo",
        *(f"/owner/repo/resolve/{commit}/{part}" for part in PARTS),
    }
    before = len(hub.site.requests)
    for again in ("owner/repo:q8_0", f"hf:owner/repo/{list(PARTS)[2]}"):
        assert hub.pull(again)["path"] == name
    assert len(hub.site.requests) == before
    assert not (hub.home / "downloads" / name).exists()


def test_a_file_that_is_not_the_listed_one_is_refused(hub: Hub) -> None:
    commit = hub.site.add_repository("owner/repo", FILES)
    hub.site.files[f"/owner/repo/resolve/{commit}/m-Q4_K_M.gguf"] = OTHER
    answer = hub.pull("owner/repo")
    assert (answer["error"], answer["status"]) == ("BadFileError", 4)
    assert not [name for name in tree(hub.home) if name.endswith(".gguf")]


def test_a_later_pull_that_differs_says_so(hub: Hub) -> None:
    first = hub.site.add_repository("owner/repo", FILES)
    hub.pull("owner/repo")
    again = hub.pull("owner/repo", "force")
    assert not [line for line in again["notices"] if "changed" in line]
    second = hub.site.add_repository("owner/repo", {**FILES, "m-Q4_K_M.gguf": OTHER})
    changed = hub.pull("owner/repo", "force")
    line = f"{NAME} has changed on the model hub: revision {first[:12]} before, {second[:12]} now"
    assert f"note: {line}" in changed["notices"]


def test_a_missing_repository_gets_names_that_are_near(hub: Hub) -> None:
    hub.site.files["/api/models"] = json.dumps(
        [{"id": "owner/Repo-GGUF"}, {"id": "owner/repo1"}, {"id": "x/zzz"}]
    ).encode()
    hub.site.headers["X-Error-Code"] = "RepoNotFound"
    answer = hub.pull("owner/repo")
    assert answer["status"] == 3
    assert answer["text"] == (
        "there is no file or folder owner/repo, and owner/repo does not exist on the model hub "
        "(did you mean owner/repo1, owner/Repo-GGUF?)"
    )


def test_a_missing_repository_without_near_ones_shows_the_forms(hub: Hub) -> None:
    answer = hub.pull("hf:owner/repo")
    assert answer["status"] == 3
    assert answer["text"].startswith("hf:owner/repo is not on the model hub (the forms are owner/repo,")


def test_a_gated_repository_says_what_to_do(hub: Hub) -> None:
    commit = hub.site.add_repository("owner/repo", FILES)
    del hub.site.files[f"/owner/repo/resolve/{commit}/m-Q4_K_M.gguf"]
    hub.site.headers["X-Error-Code"] = "GatedRepo"
    answer = hub.pull("owner/repo")
    assert answer["status"] == 6
    assert "accept its terms at https://127.0.0.1/owner/repo, then set HF_TOKEN" in answer["text"]


def test_a_token_that_is_refused_says_so(hub: Hub) -> None:
    hub.site.password = "someone:else"
    hub.site.headers["X-Error-Message"] = "Invalid credentials in Authorization header"
    answer = hub.pull("owner/repo", HF_TOKEN="hf_old")
    assert answer["status"] == 6
    assert "does not accept HF_TOKEN" in answer["text"]


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"HF_ENDPOINT": "http://127.0.0.1:9"}, "refused"),
        ({"HF_ENDPOINT": "http://no-such-host.invalid"}, "known"),
        ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set"),
    ],
)
def test_a_hub_out_of_reach_is_status_6_and_one_line(
    hub: Hub, environment: dict[str, str], reason: str
) -> None:
    answer = hub.pull("owner/repo", **environment)
    assert answer["status"] == 6
    assert "cannot be reached for hf:owner/repo" in answer["text"]
    assert reason in answer["text"]
    assert "models that are installed and files on the disk work without it" in answer["text"]
    assert "\n" not in answer["text"]
    assert tree(hub.home) == []


def test_a_hub_that_fails_is_status_6(hub: Hub) -> None:
    hub.site.add_repository("owner/repo", FILES)
    hub.site.script["/api/models/owner/repo"] = deque([("status", 503)] * 20)
    answer = hub.pull("owner/repo")
    assert answer["status"] == 6
    assert "it answered 503" in answer["text"]


@pytest.mark.parametrize(
    "listing", [b"<html>", b"[]", b"{}", b'{"id": "owner/repo", "siblings": [{"rfilename": 5}]}', b"null"]
)
def test_a_listing_that_is_none_is_one_line(hub: Hub, listing: bytes) -> None:
    hub.site.files["/api/models/owner/repo"] = listing
    answer = hub.pull("owner/repo")
    assert answer["status"] in (3, 6), answer
    assert tree(hub.home) == []


@pytest.mark.parametrize("listing", [b"[" * 100_000, b'{"siblings": ' * 50_000])
@pytest.mark.parametrize("of", ["/api/models/owner/repo", "/api/models"])
def test_a_listing_of_a_hundred_thousand_brackets_is_status_6_and_one_line(
    hub: Hub, listing: bytes, of: str
) -> None:
    hub.site.files[of] = listing
    answer = hub.pull("hf:owner/repo")
    missing = of == "/api/models"  # the list of repositories that are near
    assert answer["status"] == (3 if missing else 6), answer
    assert ("is not on the model hub" if missing else "that cannot be read") in answer["text"]
    assert "\n" not in answer["text"]


def test_a_listing_cannot_name_a_file_outside(hub: Hub) -> None:
    hub.site.add_repository("owner/repo", {"../../m-Q4_K_M.gguf": DATA, "/m-Q8_0.gguf": DATA})
    answer = hub.pull("owner/repo")
    assert answer["status"] == 3
    assert tree(hub.home) == []


def test_a_folder_that_exists_comes_before_the_hub(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgedec.models import Store

    bundle = tmp_path / "owner" / "repo"
    bundle.mkdir(parents=True)
    (bundle / "manifest.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert Store(hub.home).ensure("owner/repo").resolve() == bundle
    assert hub.site.requests == []


def test_a_finished_download_is_checked_used_and_pinned(hub: Hub) -> None:
    commit = hub.site.add_repository("owner/repo", FILES)
    finished = hub.home / "downloads" / NAME / "m-Q4_K_M.gguf"
    finished.parent.mkdir(parents=True)
    finished.write_bytes(DATA)
    (provenance,) = hub.pull("owner/repo")["provenance"]
    assert provenance["revision"] == commit
    assert hub.site.of(f"/owner/repo/resolve/{commit}/m-Q4_K_M.gguf") == []


def test_a_finished_download_that_has_changed_since_is_refused(hub: Hub) -> None:
    hub.site.add_repository("owner/repo", FILES)
    finished = hub.home / "downloads" / NAME / "m-Q4_K_M.gguf"
    finished.parent.mkdir(parents=True)
    finished.write_bytes(OTHER)
    assert hub.pull("owner/repo")["status"] == 4
    assert hub.pull("owner/repo")["path"] == NAME


def test_a_private_repository_keeps_its_advice_beside_names_that_are_near(hub: Hub) -> None:
    hub.site.files["/api/models"] = json.dumps([{"id": "owner/repo1"}]).encode()
    hub.site.script["/api/models/owner/repo"] = deque([("status", 401)])
    answer = hub.pull("owner/repo")
    assert answer["status"] == 3
    assert "or is private (did you mean owner/repo1? for a private one set HF_TOKEN)" in answer["text"]
