"""The files of the page in the browser: whole, short, its own, and allowed by its policy."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from edgedec.export.web.index import POLICY, write_page
from tests.conftest import ROOT
from tests.project.test_packaging import WHOLE, a_wheel, wheels
from tests.server.page.test_files import MOST_LINES, NAMESPACE, Index

WEB = ROOT / "export/web"
SOURCES = sorted(path for path in WEB.rglob("*") if path.suffix in (".js", ".css", ".html"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("page") / "web"
    made.mkdir()
    write_page(made)
    return made


@pytest.fixture(scope="module")
def index(folder: Path) -> Index:
    parser = Index()
    parser.feed((folder / "index.html").read_text(encoding="utf-8"))
    return parser


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_files_are_short_and_load_nothing_from_elsewhere(folder: Path) -> None:
    assert len(SOURCES) > 20
    assert [path.name for path in SOURCES if len(text_of(path).splitlines()) >= MOST_LINES] == []
    for path in folder.rglob("*"):
        if path.is_file():
            assert re.findall(r"(?:https?:)?//[\w-]+\.[\w.]+", text_of(path).replace(NAMESPACE, "")) == []


def test_the_policy_comes_before_all_that_it_is_for(folder: Path, index: Index) -> None:
    tags = [(tag, given.get("content", "")) for tag, given in index.tags]
    policy = tags.index(("meta", POLICY))
    assert all(tag not in ("script", "link") for tag, _ in tags[:policy])
    assert index.inline == []
    assert [key for _, given in index.tags for key in given if key == "style" or key.startswith("on")] == []
    assert "unsafe-inline" not in POLICY


def test_elements_that_scripts_and_labels_name_exist_once(folder: Path, index: Index) -> None:
    ids = index.values("id")
    assert len(ids) == len(set(ids))
    scripts = "".join(text_of(path) for path in folder.rglob("*.js"))
    used = set(re.findall(r'byId\("([\w-]+)"\)', scripts))
    references = " ".join(index.values("for", "aria-labelledby", "aria-describedby", "aria-controls")).split()
    anchors = [value[1:] for value in index.values("href") if value.startswith("#")]
    assert used | set(references) | set(anchors) <= set(ids)


def test_every_file_is_reached_from_the_page_or_from_the_worker(folder: Path, index: Index) -> None:
    named = [value for value in index.values("src", "href") if not value.startswith("#")]
    reached = {(folder / name).resolve() for name in [*named, "index.html", "run/worker.js"]}
    waiting = [path for path in reached if path.suffix == ".js"]
    while waiting:
        path = waiting.pop()
        names = re.findall(r'from "(\.[^"]+)"|new Worker\(new URL\("([^"]+)", import', text_of(path))
        found = {(path.parent / (one or worker)).resolve() for one, worker in names}
        waiting += sorted(found - reached)
        reached |= found
    there = {path for path in folder.rglob("*") if path.is_file()}
    assert {path.relative_to(folder).as_posix() for path in there ^ reached} == set()


def test_scripts_set_no_html() -> None:
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|document\.cookie"
    )
    assert [path.name for path in SOURCES if re.search(forbidden, text_of(path))] == []


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_scripts_are_javascript() -> None:
    check = (
        "const { SourceTextModule } = require('vm'), { readFileSync } = require('fs');"
        "for (const identifier of process.argv.slice(1))"
        "  new SourceTextModule(readFileSync(identifier, 'utf8'), { identifier });"
    )
    scripts = [str(path) for path in SOURCES if path.suffix == ".js"]
    command = ["node", "--experimental-vm-modules", "-e", check, *scripts]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_page_has_the_interface_of_the_servers_modules(folder: Path) -> None:
    """Both modules named server.js have what the shared ones call."""
    own, other = (text_of(one / "js/server.js") for one in (folder / "page", ROOT / "edgedec/server/page"))
    for name in (
        "export class ServerError",
        "hasKey",
        "setKey(",
        "models()",
        "status()",
        "markdown(text)",
        "*reply(body, signal)",
    ):
        assert name in own
        assert name in other


def test_wheels_have_the_page(tmp_path: Path) -> None:
    files = [f"{wheels.WEB}{path.relative_to(WEB).as_posix()}" for path in SOURCES]
    assert wheels.faults_of_wheel(a_wheel(tmp_path, {*WHOLE, *files})) == []
    assert wheels.faults_of_wheel(a_wheel(tmp_path, [*WHOLE, f"{wheels.WEB}a.zip"])) != []
