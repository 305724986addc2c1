"""``drafter.json``: something that belongs to one target and helps to draft for it, in a folder of its own.

It states the target by the hash of its weights, and size and hash of each file beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field
from pathlib import Path

from edgedec.bundle.manifest import GGUF, WEIGHTS, Manifest
from edgedec.core.errors import BadFileError
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk import listed_files as listed
from edgedec.disk.listed_files import FileEntry, FolderKind, ListedFolder, ManifestFields, Scalar

DRAFTER = "drafter.json"
TRIM, TABLES, HEAD, MTP, ASSISTANT = "trim", "tables", "head", "mtp", "assistant"


@dataclass(frozen=True, slots=True)
class ArtefactKind:
    """A kind of what helps to draft for one target, in words for people."""

    use: str
    llama_cpp: str = ""
    """The form in which llama.cpp reads it; "" where it has none."""
    of_makers: bool = False
    """Whether the makers of the target made it."""


KINDS = {
    TRIM: ArtefactKind("a smaller vocabulary for drafts, so that they take less time"),
    TABLES: ArtefactKind("what the model says most, so that its first reply is drafted too"),
    HEAD: ArtefactKind(
        "a trained head, which guesses what the model says next",
        "a drafting head, as architecture eagle3. It has no embedding table: llama.cpp takes the model's",
    ),
    MTP: ArtefactKind(
        "the model's own layer for further tokens",
        "the model's own layer for further tokens, as an mtp-*.gguf file with the model's tables",
        of_makers=True,
    ),
    ASSISTANT: ArtefactKind(
        "the assistant that the model's makers trained for it",
        "an assistant of Gemma 4, as architecture gemma4-assistant, without clusters of its vocabulary",
        of_makers=True,
    ),
}

_FIELDS = ("format", "version", "kind", "target", "files", "facts")
_FOLDER = FolderKind(
    DRAFTER, "drafter", "make it again, or remove it", "edgedec-drafter", renew="make the drafter again"
)


@dataclass(frozen=True, slots=True)
class Target:
    """The model that a drafter belongs to: its name for people, the hash of its weights, its vocabulary."""

    name: str
    sha256: str
    vocab_size: int

    @classmethod
    def of(cls, manifest: Manifest) -> Target:
        """Return the target that is in the bundle of ``manifest``."""
        weights = manifest.files[WEIGHTS if WEIGHTS in manifest.files else GGUF]
        return cls(manifest.name, weights.sha256, manifest.spec.vocab_size)

    @classmethod
    def read(cls, fields: ManifestFields) -> Target:
        """Read one that a manifest states. Raises BadFileError."""
        return cls(
            fields.get("name", listed.text),
            fields.get("sha256", listed.sha256),
            fields.get("vocab_size", listed.count),
        )

    @property
    def short_hash(self) -> str:
        """The name of folders with files of this target."""
        return self.sha256[:16]


@dataclass(frozen=True, slots=True)
class DrafterManifest(ListedFolder):
    """The table of contents of a drafter's folder.

    ``facts`` say how it was made, its licence, and what was measured.
    """

    kind: str
    target: Target
    files: Mapping[str, FileEntry]
    facts: Mapping[str, Scalar] = field(default_factory=dict)

    @classmethod
    def load(cls, directory: Path, *, verify: bool = True) -> DrafterManifest:
        """Read and check the manifest in ``directory``, and the files that it lists.

        ``verify`` compares hashes too. Raises NotFoundError when there is none, BadFileError when it or a
        file is broken, UnsupportedError when it has another version.
        """
        manifest = cls.from_json(_FOLDER.read(directory))
        _FOLDER.check_all(directory, manifest.files, verify=verify)
        for path in directory.iterdir():
            if path.name != DRAFTER and path.name not in manifest.files:
                raise _FOLDER.broken(f"it does not list {path.name[:40]!r}")
        return manifest

    @classmethod
    def from_json(cls, text: str) -> DrafterManifest:
        """Decode the text of a manifest. Raises BadFileError or UnsupportedError."""
        top = _FOLDER.decoded(text)
        top.check_seal(_FIELDS)
        if (kind := top.get("kind", listed.text)) not in KINDS:
            raise _FOLDER.broken(f"its kind {kind[:40]!r} is none of {', '.join(KINDS)}")
        files = _FOLDER.files(top.get("files", listed.mapping))
        return cls(kind, Target.read(top.below("target")), files, top.get("facts", listed.scalars))

    def check_target(self, target: Target) -> None:
        """Raise BadFileError unless the drafter belongs to ``target``."""
        if self.target.sha256 != target.sha256:
            raise BadFileError(
                f"the drafter belongs to other weights of {self.target.name}"
                if self.target.name == target.name
                else f"the drafter belongs to {self.target.name}, not to {target.name}",
                hint=f"make it again for {target.name}",
            )
        if self.target.vocab_size != target.vocab_size:
            sizes = f"{self.target.vocab_size} tokens, and {target.name} has {target.vocab_size}"
            raise BadFileError(f"the drafter is for {sizes}", hint=f"make it again for {target.name}")

    def to_json(self) -> str:
        """The text of ``drafter.json``."""
        data = {
            "kind": self.kind,
            "target": asdict(self.target),
            "files": self.listed(),
            "facts": dict(self.facts),
        }
        return _FOLDER.text_of(data)

    def save(self, directory: Path) -> None:
        """Write ``drafter.json`` into ``directory``. Raises StorageError."""
        _FOLDER.save(directory, self.to_json())
