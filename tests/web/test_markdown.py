"""Markdown of replies in the browser: the same as the library makes that the server uses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.web.test_files import WEB

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")

CASES = (
    "Hello *w* **b** ***x*** `a<b`",
    "a\nb  \nc\\\nd",
    "# H1\n## H2 ##\ntext",
    "- a\n- b\n  - c\n  - d\n- e",
    "1. a\n2. b\n\n   para\n3. c",
    "3) x\n4) y",
    "> q\n> r\n\nafter",
    "```python\ndef f():\n    return 1 < 2\n```\nend",
    "| a | b |\n|---|--:|\n| 1 | 2 |\n| x\\|y | `z` |\n\nafter",
    "---\n***\n",
    "[a](http://x.y/z_(w)) <https://e.com> ![p](http://q/r.png)",
    "<script>alert(1)</script> <b onclick=x>",
    "snake_case_name and *no * star* **x",
    "* item **b**: text\n* item2\n\nPara",
    "~~gone~~ \\*lit\\*",
    "    code\n    more\n\nx",
    "1. **A**: b\n   - x\n   - y\n2. **C**",
    "- a\n\n- b",
    "text\n- item\n1. one",
    "```\nunclosed",
    "a `code with ** stars` **b `c*` d**",
    "",
    "***",
    "**bold**text**",
    "2 * 3 * 4 = 24",
    "# Sum of $x_1$ and x_2",
    "- code:\n\n  ```js\n  let a;\n  ```\n- next",
    "> - quoted\n> - list",
)


def normal(html: str) -> str:
    aligned = re.sub(r' style="text-align:(\w+)"', r' class="align-\1"', html)
    return re.sub(r"\s*\n\s*", "", aligned).replace(" />", ">")


def rendered(folder: Path, texts: list[str]) -> list[str]:
    """The page's HTML of texts."""
    for name in ("blocks.js", "inline.js"):
        shutil.copyfile(WEB / "page/js" / name, folder / name)
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    script = (
        'import fs from "fs"; import { html } from "./blocks.js";'
        'console.log(JSON.stringify(JSON.parse(fs.readFileSync("texts.json", "utf8")).map(html)));'
    )
    (folder / "run.js").write_text(script, encoding="utf-8")
    done = subprocess.run(
        ["node", "run.js"], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def test_markdown_is_that_of_the_library(tmp_path: Path) -> None:
    library = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    for text, html in zip(CASES, rendered(tmp_path, list(CASES)), strict=True):
        assert normal(html) == normal(library.render(text)), text


def test_every_beginning_of_a_reply_is_rendered(tmp_path: Path) -> None:
    """A reply that grows is cut anywhere."""
    text = "\n\n".join(CASES)
    for html in rendered(tmp_path, [text[:end] for end in range(0, len(text), 3)]):
        assert "<script" not in html
        assert len(re.findall(r"<[a-z]", html)) == len(re.findall(r"</[a-z]|<(?:br|hr|img)\b", html))


def test_hostile_text_ends(tmp_path: Path) -> None:
    texts = [
        "*" * 3000,
        "[" * 3000,
        "`" * 999 + " " + "`" * 998,
        "> " * 2000,
        "- " * 2000,
        "| a " * 2000,
        "_a" * 3000,
    ]
    assert len(rendered(tmp_path, texts)) == len(texts)
