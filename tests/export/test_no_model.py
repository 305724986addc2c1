"""Files and folders that hold no model: one line says what they are, and what would work."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import gguf
import pytest

from edgedec.core.errors import BadFileError, EdgeDecError, UnsupportedError, UsageError
from edgedec.export import export_gguf, export_huggingface
from edgedec.export.gguf_source import open_gguf
from tests.fixtures.tiny_gguf import write_tiny


def written(path: Path, architecture: str, **texts: str) -> Path:
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in texts.items():
        writer.add_string(key.replace("_", "."), value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("architecture", "texts", "words", "hint"),
    [
        (
            "llama",
            {"general_type": "adapter", "adapter_type": "lora"},
            "holds a LoRA adapter for a llama",
            "merge it",
        ),
        ("clip", {"general_type": "mmproj"}, "mmproj", "pictures are not read yet"),
        ("clip", {}, "mmproj", "the model beside it"),
        ("llama", {"general_type": "imatrix"}, "importance matrix", "the model beside it"),
        ("nomic-bert-moe", {}, "is an encoder", "decoders that make vectors"),
        ("t5encoder", {}, "is an encoder", "decoders that make vectors"),
        ("eagle3", {}, "EAGLE-3 head", "drafter"),
        ("klingon", {}, "architecture 'klingon' is not supported", "supported are"),
    ],
)
def test_a_file_says_what_it_is(
    architecture: str, texts: dict[str, str], words: str, hint: str, tmp_path: Path
) -> None:
    file = written(tmp_path / "a.gguf", architecture, **texts)
    with pytest.raises(EdgeDecError) as caught:
        export_gguf(file, tmp_path / "out")
    assert words in caught.value.message
    assert hint in (caught.value.hint or "")
    assert not (tmp_path / "out").exists()


def test_an_unknown_architecture_names_the_runtime_that_may_know_it(tmp_path: Path) -> None:
    file = write_tiny(tmp_path / "a.gguf", "llama")
    content = file.read_bytes().replace(b"llama", b"llamb")
    file.write_bytes(content)
    with pytest.raises(UnsupportedError) as caught:
        export_gguf(file, tmp_path / "out")
    assert "architecture 'llamb' is not supported" in caught.value.message
    assert "llama" in (caught.value.hint or "")


def test_a_folder_with_an_adapter(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UsageError, match="holds an adapter of peft") as caught:
        export_huggingface(tmp_path, tmp_path / "out")
    assert "merge" in (caught.value.hint or "")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "a.gguf"
    os.mkfifo(pipe)
    failed: list[Exception] = []

    def read() -> None:
        try:
            export_gguf(pipe, tmp_path / "out")
        except EdgeDecError as error:
            failed.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(60)
    assert [str(error) for error in failed] == [
        f"{pipe} is a pipe or a device, not a file (save it to a file first)"
    ]


def test_a_text_that_is_not_utf_8_matters_only_where_it_is_read(tmp_path: Path) -> None:
    file = write_tiny(tmp_path / "a.gguf", "llama")
    content = file.read_bytes()
    name = content.index(b"general.name") + len(b"general.name") + 12
    file.write_bytes(content[:name] + b"\xff" + content[name + 1 :])
    with open_gguf(file) as source:
        assert isinstance(source.metadata["general.name"], bytes)
    assert export_gguf(file, tmp_path / "out").name == "a"
    token = content.index(b"<|im_end|>") if b"<|im_end|>" in content else content.index(b"hello")
    file.write_bytes(content[:token] + b"\xff" + content[token + 1 :])
    with pytest.raises(BadFileError, match="not UTF-8"):
        export_gguf(file, tmp_path / "other")


def test_a_file_name_that_is_not_utf_8(tmp_path: Path) -> None:
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.gguf"))
    write_tiny(tmp_path / "a.gguf", "llama").rename(file)
    manifest = export_gguf(file, tmp_path / "out")
    assert manifest.source["file"] == "caf.gguf"
