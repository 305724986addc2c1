"""Puts a bundle, or the folder of a drafter, below a folder for a device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edgedec.bundle.drafter_manifest import DRAFTER, DrafterManifest
from edgedec.bundle.manifest import MANIFEST, TOKENIZER, TOKENIZER_TABLE, Manifest
from edgedec.core.errors import UnsupportedError
from edgedec.core.progress import Progress, silent
from edgedec.disk.listed_files import FileEntry
from edgedec.drafters.artifacts import DrafterArtifact
from edgedec.export.writer import place_file
from edgedec.text.bpe_table import BpeTable
from edgedec.text.table_encoder import open_encoder, reason_for_no_table
from edgedec.text.template import ChatTemplate
from edgedec.text.template_program import FILE_NAME as TEMPLATE_PROGRAM
from edgedec.text.template_program import write_program

Files = dict[str, FileEntry]


def check_suits(manifest: Manifest) -> None:
    """Raise UnsupportedError for a bundle that EdgeDec's native engine does not run."""
    if manifest.kind != "edgedec":
        raise UnsupportedError(
            f"{manifest.name} runs without EdgeDec's kernels, and a device has nothing else",
            hint="export a model of an architecture that they run",
        )


def place_bundle(bundle: Path, into: Path, report: Progress) -> tuple[Manifest, Files]:
    """Put the files of ``bundle`` into the folder ``into``, with the tokenizer as a table alone.

    The chat template has its program beside it, because a device has no parser for templates. Returns its
    manifest there, and the entries of all its files. Raises UnsupportedError for a tokenizer that has no
    table, TemplateError for a template that is none, StorageError.
    """
    manifest = Manifest.load(bundle)
    into.mkdir(parents=True)
    for name in manifest.files:
        place_file(bundle / name, into / name, report)
    files = dict(manifest.files)
    if TOKENIZER_TABLE not in files:
        _place_table(bundle, into, manifest)
        del files[TOKENIZER]
        files[TOKENIZER_TABLE] = FileEntry.of(into / TOKENIZER_TABLE)
    if manifest.tokenizer.chat_template:
        _write_program(into)
        files[TEMPLATE_PROGRAM] = FileEntry.of(into / TEMPLATE_PROGRAM)
    placed = replace(manifest, files=files)
    placed.save(into)
    return placed, {**files, MANIFEST: FileEntry.of(into / MANIFEST)}


def place_drafter(found: DrafterArtifact, into: Path, report: Progress) -> Files:
    """Put a drafter's folder at ``into``, and return the entries of all its files."""
    manifest = DrafterManifest.load(found.path, verify=False)
    into.mkdir(parents=True)
    for name in (*manifest.files, DRAFTER):
        place_file(found.path / name, into / name, report)
    return {**manifest.files, DRAFTER: FileEntry.of(into / DRAFTER)}


def _place_table(bundle: Path, into: Path, manifest: Manifest) -> None:
    """Put the table of ``into``'s tokenizer.json in its place; it is made where ``bundle`` has none."""
    if (bundle / TOKENIZER_TABLE).is_file():
        place_file(bundle / TOKENIZER_TABLE, into / TOKENIZER_TABLE, silent)
    encoder = open_encoder(into, manifest.tokenizer_sha256)
    if not isinstance(encoder, BpeTable):
        reason = reason_for_no_table(into) or "its table cannot be written"
        raise UnsupportedError(
            f"the tokenizer of {manifest.name} cannot be made a table, which a device reads: {reason}",
            hint="models with a BPE tokenizer of the usual kinds have one",
        )
    (into / TOKENIZER).unlink()


def _write_program(into: Path) -> None:
    """Write the program of the chat template in ``into``. Raises BadFileError or TemplateError."""
    template = ChatTemplate.load(into, bos="", eos="")
    if template is not None:
        write_program(into, template.source)
