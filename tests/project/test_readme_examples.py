"""Every example of README and guide runs on a fresh clone of the last commit, or states why not.

``python -m pytest -m slow -rA tests/project/test_readme_examples.py`` shows commands and output too.
"""

from __future__ import annotations

import re

import pytest

from tests.project.examples import EXAMPLES, Block, Example, blocks, pages
from tests.project.examples_machine import FILES, Machine

OUT_OF_REACH = 6
"""Exit status of a command whose download failed."""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    machine.make()
    for page in pages():
        blocks(page)  # as they are in the clone, whatever is edited from now on
    return machine


def found(example: Example) -> Block:
    """The block that an example is about."""
    matching = [block for block in blocks(example.page) if example.part in block.text]
    assert len(matching) == 1, f"{len(matching)} blocks of {example.page} contain {example.part!r}"
    return matching[0]


@pytest.mark.parametrize("page", pages())
def test_every_block_of_a_page_has_its_example(page: str) -> None:
    """Examples stand in the order of the blocks, because a later one may use what an earlier one made."""
    known = [found(example) for example in EXAMPLES if example.page == page]
    assert known == list(blocks(page)), "add new blocks to tests/project/examples.py"


def test_files_of_examples_are_known() -> None:
    assert {name for example in EXAMPLES for name in example.files} <= set(FILES)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.page}: {example.part}")
def test_example_runs(example: Example, machine: Machine) -> None:
    if example.left_out:
        pytest.skip(example.left_out)
    if example.needs and not machine.has(example.needs):
        pytest.skip(f"about {example.needs}, which a fresh environment does not have")
    block = found(example)
    machine.prepare(example)
    done = machine.run(block, example)
    print(f"{block.script}\n--- printed\n{done.stdout}\n--- and on standard error\n{done.stderr}")
    if example.hub and done.returncode == OUT_OF_REACH:
        pytest.skip("the model hub is out of reach")
    assert done.returncode == 0
    assert re.search(example.prints, done.stdout)
    assert "Traceback" not in done.stderr
