"""text/ on 64-bit Arm, in qemu: the ids, pieces of text and prompts of Python on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgedec.session.prompt import Prompts
from edgedec.text.template import ChatTemplate
from edgedec.text.template_program import program_of
from tests.fixtures.tiny_tokenizers import bpe_metadata, built, spm_metadata
from tests.kernels.arm import ArmLibrary, needs_arm
from tests.native import test_text as here
from tests.native import test_text_template as templates
from tests.native.arm_text import ArmTextProbe

pytestmark = needs_arm


@pytest.fixture(scope="module")
def arm() -> Iterator[ArmLibrary]:
    with ArmLibrary("cortex-a76") as library:
        yield library


@pytest.fixture(params=here.SIDES)
def both(request: pytest.FixtureRequest, tmp_path: Path, arm: ArmLibrary) -> Iterator[here.Both]:
    yield from both_on(request.param, tmp_path, arm)


def both_on(side: str, folder: Path, library: ArmLibrary) -> Iterator[here.Both]:
    """A tokenizer of this machine, and the same table in a library elsewhere."""
    metadata = (
        bpe_metadata()
        if side == "bpe"
        else spm_metadata(here.WORDS, add_space_prefix=side == "spm with a space")
    )
    tokenizer = built(folder, metadata)
    info = tokenizer.info
    bos = info.bos_id if info.add_bos and info.bos_id is not None else -1
    with ArmTextProbe(library, str(folder / "tokenizer.table"), spm=info.kind == "spm", bos=bos) as probe:
        yield tokenizer, probe


def test_ids_and_streams_are_those_of_this_machine(both: here.Both) -> None:
    here.test_ids(both)
    here.test_facts(both)
    here.test_bytes_that_are_no_text_are_read_as_python_reads_them(both)
    here.test_a_stream_of_tokens_is_cut_as_in_python(both)
    here.test_token_by_token_is_the_whole_text(both)


def test_stop_strings_and_thinking(arm: ArmLibrary) -> None:
    with ArmTextProbe(arm) as probe:
        here.test_stop_strings(probe)
        here.test_thinking(probe)


def test_chat_templates_write_the_text_of_jinja(arm: ArmLibrary) -> None:
    with ArmTextProbe(arm) as probe:
        for expression in templates.EXPRESSIONS:
            templates.test_an_expression_is_that_of_jinja(expression, probe)
        for source in templates.PROGRAMS:
            templates.test_a_program_is_that_of_jinja(source, probe)
        for name, source in templates.SOURCES.items():
            probe.use_template(program_of(source), source, bos="<bos>", eos="<eos>")
            for talk in templates.talks(12)[1:]:
                found = templates.answered(probe, talk)
                assert found == templates.rendered(source, talk), name


def test_chats_have_the_ids_of_python(both: here.Both) -> None:
    tokenizer, probe = both
    source = templates.REAL["qwen2.5-coder"]
    probe.use_template(program_of(source), source, bos="<bos>", eos="<eos>")
    prompts = Prompts(tokenizer, ChatTemplate(source, bos="<bos>", eos="<eos>"))
    templates.same_chats(tokenizer, prompts, probe)
