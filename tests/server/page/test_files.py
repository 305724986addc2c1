"""The page's files: whole, its own, and allowed by a policy that trusts nothing but the server."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.project.test_packaging import WHOLE, a_wheel, wheels

PAGE = ROOT / "edgedec/server/page"
FILES = sorted(path for path in PAGE.rglob("*") if path.is_file())
SCRIPTS = [path for path in FILES if path.suffix == ".js"]
STYLES = [path for path in FILES if path.suffix == ".css"]
MOST_LINES = 300
NAMESPACE = "http://www.w3.org/2000/svg"


def name(path: Path) -> str:
    return path.relative_to(PAGE).as_posix()


class Index(HTMLParser):
    """Tags of a page with their attributes, and the text of scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.inline: list[str] = []
        self.within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))
        self.within = tag

    def handle_data(self, data: str) -> None:
        if self.within in ("script", "style") and data.strip():
            self.inline.append(data)

    def values(self, *attributes: str) -> list[str]:
        return [given[key] for _, given in self.tags for key in attributes if key in given]


@pytest.fixture(scope="module")
def index() -> Index:
    parser = Index()
    parser.feed((PAGE / "index.html").read_text(encoding="utf-8"))
    return parser


@pytest.mark.parametrize("path", FILES, ids=name)
def test_files_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < MOST_LINES


@pytest.mark.parametrize("path", FILES, ids=name)
def test_nothing_is_loaded_from_elsewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace(NAMESPACE, "")
    assert re.findall(r"(?:https?:)?//[\w-]+\.[\w.]+", text) == []
    assert "@import" not in text


@pytest.mark.parametrize("path", STYLES, ids=name)
def test_styles_refer_to_no_other_file(path: Path) -> None:
    assert "url(" not in path.read_text(encoding="utf-8")


def test_the_page_has_no_script_or_style_within_it(index: Index) -> None:
    assert index.inline == []
    inline = [key for _, given in index.tags for key in given if key == "style" or key.startswith("on")]
    assert inline == []


def test_files_that_the_page_names_exist(index: Index) -> None:
    named = [value for value in index.values("src", "href") if not value.startswith("#")]
    assert all(value.startswith("page/") for value in named)
    assert [value for value in named if not (PAGE / value.removeprefix("page/")).is_file()] == []


def test_every_file_is_reached_from_the_page(index: Index) -> None:
    reached = {value.removeprefix("page/") for value in index.values("src", "href")} | {"index.html"}
    waiting = [value for value in reached if value.endswith(".js")]
    while waiting:
        text = (PAGE / waiting.pop()).read_text(encoding="utf-8")
        imported = {f"js/{found}" for found in re.findall(r'from "\./([\w-]+\.js)"', text)}
        waiting += sorted(imported - reached)
        reached |= imported
    assert {name(path) for path in FILES} - reached == set()


def ids_in_scripts() -> Iterator[tuple[str, str]]:
    for path in SCRIPTS:
        text = path.read_text(encoding="utf-8")
        for pattern in (r'byId\("([\w-]+)"\)', r'getElementById\("([\w-]+)"\)'):
            yield from ((name(path), found) for found in re.findall(pattern, text))
        drawn = re.findall(r'\b(?:icon|iconButton|action)\("(\w+)"', text) + re.findall(
            r'step\(-?1, "(\w+)"', text
        )
        yield from ((name(path), f"icon-{found}") for found in drawn)


def test_elements_that_scripts_and_labels_name_exist_once(index: Index) -> None:
    ids = index.values("id")
    assert len(ids) == len(set(ids))
    used = set(ids_in_scripts())
    assert len(used) > 40
    assert {one for one in used if one[1] not in ids} == set()
    references = " ".join(index.values("for", "aria-labelledby", "aria-describedby", "aria-controls")).split()
    anchors = [value[1:] for value in index.values("href") if value.startswith("#")]
    assert set(references + anchors) - set(ids) == set()


def test_scripts_set_no_html() -> None:
    """Text becomes elements by known names alone."""
    found = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|document\.cookie"
    assert [name(path) for path in SCRIPTS if re.search(found, path.read_text(encoding="utf-8"))] == []


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_scripts_are_javascript() -> None:
    for path in SCRIPTS:
        kind = "commonjs" if path.name == "early.js" else "module"
        command = ["node", f"--input-type={kind}", "--check", "-"]
        text = path.read_text(encoding="utf-8")
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, f"{name(path)}: {done.stderr}"


def test_wheels_have_the_page(tmp_path: Path) -> None:
    files = [f"{wheels.PAGE}{name(path)}" for path in FILES]
    assert wheels.faults_of_wheel(a_wheel(tmp_path, {*WHOLE, *files})) == []
    assert wheels.faults_of_wheel(a_wheel(tmp_path, [*WHOLE, f"{wheels.PAGE}a.zip"])) != []
    with (ROOT / "pyproject.toml").open("rb") as file:
        wheel = tomllib.load(file)["tool"]["scikit-build"]["wheel"]
    assert wheel["packages"]["edgedec"] == "edgedec"
    assert [one for one in files for pattern in wheel["exclude"] if Path(one).match(pattern)] == []
