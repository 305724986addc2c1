"""References to the model hub as people type them, and the choice of a file in a repository."""

from __future__ import annotations

import pytest

from edgedec.core.errors import NotFoundError, UsageError
from edgedec.models import HubFile
from edgedec.models.hub_choice import ORDER, choose, parts_of, quant_of, quantisations
from edgedec.models.hub_names import hub_name, may_name_hub, names_hub, parse_hub

FILES = [
    "README.md",
    "m-Q8_0.gguf",
    "m-Q4_K_M.gguf",
    "m-f16.gguf",
    "mmproj-m-Q4_K_M.gguf",
    "imatrix.gguf",
    "big-Q6_K-00001-of-00002.gguf",
    "big-Q6_K-00002-of-00002.gguf",
]


@pytest.mark.parametrize(
    ("reference", "file"),
    [
        ("owner/repo", HubFile("owner/repo")),
        ("owner/repo:latest", HubFile("owner/repo")),
        ("owner/repo:Q4_K_M", HubFile("owner/repo", quant="Q4_K_M")),
        ("owner/Re.po-1_B@v1:q8_0", HubFile("owner/Re.po-1_B", revision="v1", quant="q8_0")),
        ("owner/repo:m-q4_k_m.gguf", HubFile("owner/repo", "m-q4_k_m.gguf")),
        ("hf:owner/repo", HubFile("owner/repo")),
        ("hf:owner/repo:Q8_0", HubFile("owner/repo", quant="Q8_0")),
        ("hf:owner/repo/a/b.gguf", HubFile("owner/repo", "a/b.gguf")),
        ("hf.co/owner/repo:Q8_0", HubFile("owner/repo", quant="Q8_0")),
        ("huggingface.co/owner/repo", HubFile("owner/repo")),
        ("https://huggingface.co/owner/repo", HubFile("owner/repo")),
        ("https://huggingface.co/owner/repo/", HubFile("owner/repo")),
        ("https://hf.co/owner/repo/tree/main", HubFile("owner/repo")),
        ("https://huggingface.co/owner/repo/tree/v2", HubFile("owner/repo", revision="v2")),
        ("https://huggingface.co/o/r/blob/main/a/b.gguf?x=1#y", HubFile("o/r", "a/b.gguf")),
        ("https://huggingface.co/o/r/resolve/abc/b.gguf", HubFile("o/r", "b.gguf", "abc")),
        ("https://mirror.example/o/r", HubFile("o/r")),
    ],
)
def test_every_form_of_a_name_on_the_hub_is_understood(
    reference: str, file: HubFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example")
    assert names_hub(reference) or may_name_hub(reference)
    assert parse_hub(reference) == file


@pytest.mark.parametrize(
    "reference",
    ["hf:", "hf:a", "hf:a/b/c.bin", "hf:a/../c.gguf", "hf:a//c.gguf", "https://example.org/a/b", "hf.co/a",
     "https://huggingface.co/a/b/blob/main/c.bin", "file:///a/b", "hf:a/b:Q4 K"],
)  # fmt: skip
def test_other_forms_are_usage_errors_that_show_the_right_ones(reference: str) -> None:
    with pytest.raises(UsageError, match="owner/repo:Q4_K_M"):
        parse_hub(reference)


@pytest.mark.parametrize(
    "reference",
    ["smollm2-135m", "./owner/repo", "../repo", "/owner/repo", "~/repo", "a/b/c", "a/m.gguf", "a/"],
)
def test_paths_and_plain_names_are_no_names_on_the_hub(reference: str) -> None:
    assert not names_hub(reference)
    assert not may_name_hub(reference)


def test_names_in_the_store_differ_also_where_they_are_long() -> None:
    long = "owner/" + "r" * 90
    names = {hub_name(HubFile(long, f"{'m' * 60}-{quant}.gguf")) for quant in ORDER}
    assert len(names) == len(ORDER)
    assert max(map(len, names)) == 120
    assert hub_name(HubFile("o/r", "a/m.gguf")) == "o--r--a--m"
    assert hub_name(HubFile("o/r", "m.gguf", "v1")) == "o--r--v1--m"


@pytest.mark.parametrize(
    ("path", "quant"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("a/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "Q4_K_M"),
        ("Q8_0/Llama-3.2-1B-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
        ("x.i1-IQ3_XXS.gguf", "IQ3_XXS"),
        ("phi-3-mini-4k-instruct-fp16.gguf", "F16"),
        ("gpt-oss-mxfp4.gguf", "MXFP4"),
        ("Qwen3.5-9B-NVFP4.gguf", "NVFP4"),
        ("Qwen3-8B.gguf", None),
        ("model.gguf", None),
    ],
)
def test_the_quantisation_is_read_from_the_file_name(path: str, quant: str | None) -> None:
    assert quant_of(path) == quant


def test_the_usual_file_is_q4_k_m_and_never_a_side_file() -> None:
    assert choose(FILES, None, "o/r") == "m-Q4_K_M.gguf"
    assert choose(["mmproj-Q4_K_M.gguf", "imatrix.gguf", "m-Q2_K.gguf"], None, "o/r") == "m-Q2_K.gguf"


@pytest.mark.parametrize(
    "side",
    [
        "eagle3-m-Q4_K_M.gguf", "m-eagle3-Q4_K_M.gguf", "mtp-m-Q4_K_M.gguf", "MTP/m-Q4_K_M.gguf",
        "mmproj-m-Q4_K_M.gguf", "imatrix_Q4_K_M.gguf", "m-it-assistant-Q4_K_M.gguf", "DFlash-m-Q4_K_M.gguf",
        "m-EAGLE3.Q4_K_M.gguf", "m-lora-Q4_K_M.gguf",
    ],
)  # fmt: skip
def test_drafters_and_other_side_files_are_no_models(side: str) -> None:
    for files in ([side, "m-Q8_0.gguf"], ["m-Q8_0.gguf", side]):
        assert choose(files, None, "o/r") == "m-Q8_0.gguf"
        assert quantisations(files) == ["Q8_0"]
        with pytest.raises(NotFoundError, match="it has Q8_0"):
            choose(files, "Q4_K_M", "o/r")


@pytest.mark.parametrize("model", ["eagle-eyed-7b-Q4_0.gguf", "Qwen3.5-2B-MTP-Q8_0.gguf", "beagle-Q4_0.gguf"])
def test_models_with_such_words_within_their_names(model: str) -> None:
    assert choose([model], None, "o/r") == model


def test_a_repository_of_drafters_alone_says_so() -> None:
    with pytest.raises(NotFoundError, match=r"drafters alone: eagle3-m-Q8_0\.gguf"):
        choose(["eagle3-m-Q8_0.gguf"], None, "o/r")


def test_without_q4_k_m_the_order_decides_and_then_the_name() -> None:
    files = [f"m-{quant}.gguf" for quant in reversed(ORDER)]
    for quant in ORDER:
        assert choose(files, None, "o/r") == f"m-{quant}.gguf"
        files.remove(f"m-{quant}.gguf")
    assert choose(["b.gguf", "a.gguf", "m-IQ1_S.gguf"], None, "o/r") == "a.gguf"


def test_a_named_quantisation_is_taken_in_any_case_and_at_the_top_first() -> None:
    assert choose(FILES, "q8_0", "o/r") == "m-Q8_0.gguf"
    assert choose(FILES, "FP16", "o/r") == "m-f16.gguf"
    assert choose(["old/m-Q8_0.gguf", "z-Q8_0.gguf"], "Q8_0", "o/r") == "z-Q8_0.gguf"


def test_an_unknown_quantisation_lists_those_there_are() -> None:
    with pytest.raises(NotFoundError) as caught:
        choose(FILES, "Q5_K_M", "o/r")
    assert str(caught.value) == "o/r on the model hub has no Q5_K_M (it has Q4_K_M, Q6_K, Q8_0, F16)"
    assert quantisations(FILES) == ["Q4_K_M", "Q6_K", "Q8_0", "F16"]


def test_a_model_in_parts_is_its_first_part() -> None:
    assert choose(FILES, "Q6_K", "o/r") == FILES[-2]
    assert choose(FILES[-2:], None, "o/r") == FILES[-2]
    assert parts_of(FILES[-1], FILES, "o/r") == FILES[-2:]
    assert parts_of("m-Q8_0.gguf", FILES, "o/r") == ["m-Q8_0.gguf"]
    assert quant_of(FILES[-1]) == "Q6_K"


def test_a_file_in_one_piece_comes_before_parts() -> None:
    assert choose([*FILES, "z/m-Q6_K.gguf"], "Q6_K", "o/r") == "z/m-Q6_K.gguf"


def test_a_repository_that_lacks_a_part_names_it() -> None:
    with pytest.raises(NotFoundError) as caught:
        choose(FILES[:-1], "Q6_K", "o/r")
    assert str(caught.value) == (
        "o/r on the model hub has big-Q6_K-00001-of-00002.gguf and lacks big-Q6_K-00002-of-00002.gguf, "
        "another part of this model (choose another quantisation)"
    )
    assert choose(["m-Q4_K_M-00001-of-00002.gguf", "m-Q8_0.gguf"], None, "o/r") == "m-Q8_0.gguf"


def test_parts_have_one_name_in_the_store() -> None:
    names = {hub_name(HubFile("o/r", f"Q6_K/{name}")) for name in FILES[-2:]}
    assert names == {"o--r--Q6_K--big-Q6_K"}


def test_a_repository_without_gguf_says_so() -> None:
    with pytest.raises(NotFoundError, match="has no GGUF file"):
        choose(["model.safetensors", "mmproj.gguf"], None, "o/r")
