"""Find the files of a model in a repository of the model hub, by the listing that the hub gives."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from edgedec.core.errors import DownloadError, EdgeDecError, NotFoundError
from edgedec.core.quick_dataclass import dataclass
from edgedec.models.hub_choice import choose, parts_of
from edgedec.models.recipes import HubFile, Licence
from edgedec.models.sources.hub_errors import NoRepositoryError, plain_errors

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo, RepoSibling

CONFIG = "config.json"
_TEXTS = (CONFIG, "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
          "chat_template.json")  # fmt: skip
_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"
HEAD_WEIGHTS = (_WEIGHTS, "pytorch_model.bin")
"""Files of the weights of a drafting head, the first choice first."""
_SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
_SHA256, _SHA1 = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{40}")
_TIMEOUT_S = 10.0
_NEAR = 3


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository: large ones have a SHA-256, others the SHA-1 of their git object."""

    path: str
    bytes: int | None
    sha256: str | None = None
    git_sha1: str | None = None


@dataclass(frozen=True, slots=True)
class Located:
    """The files of a model on the hub, all of one commit.

    ``file`` names the GGUF and the commit; without a file name the model is a Hugging Face directory.
    ``usual`` tells whether the repository's bare name means it.
    """

    file: HubFile
    files: tuple[RemoteFile, ...]
    usual: bool
    licence: Licence | None = None

    @property
    def bytes(self) -> int:
        """Bytes of all files, as far as the hub states them."""
        return sum(file.bytes or 0 for file in self.files)


def locate(wanted: HubFile) -> Located:
    """Ask the hub which file a reference without one means, or for the other parts of the one that it names.

    A GGUF is chosen by ``hub_choice.choose``. A repository without any gives its Hugging Face model. Raises
    NotFoundError, which names similar repositories or the quantisations there are, UnsupportedError, and
    DownloadError when the hub is out of reach or refuses.
    """
    found = _listing(wanted)
    if not any(path.lower().endswith(".gguf") for path in found.files):
        return found.located(_directory(wanted, found.files))
    path = wanted.file or choose(found.files, wanted.quant, wanted.repo)
    parts = parts_of(path, found.files, wanted.repo)
    by_order = wanted.file is None and wanted.quant is None
    usual = by_order or parts[0] == choose(found.files, None, wanted.repo)
    return found.located(parts, parts[0], usual=usual)


def locate_head(wanted: HubFile) -> Located:
    """Ask the hub for the files of a drafting head: its config and weights, or else a GGUF file.

    Raises as ``locate`` does.
    """
    found = _listing(wanted)
    weights = [name for name in HEAD_WEIGHTS if name in found.files][:1]
    if CONFIG in found.files and weights and not wanted.quant:
        return found.located([CONFIG, *weights])
    path = wanted.file or choose(found.files, wanted.quant, wanted.repo)
    if path not in found.files:
        raise NotFoundError(f"{wanted.repo} on the model hub has no file {path}")
    return found.located([path], path)


@dataclass(frozen=True, slots=True)
class _Listing:
    """The files of a repository by path, all of one commit."""

    wanted: HubFile
    files: dict[str, RemoteFile]
    commit: str | None
    licence: Licence | None

    def located(self, paths: list[str], file: str | None = None, *, usual: bool = True) -> Located:
        """Return some of the files; ``file``: the GGUF among them."""
        wanted = replace(self.wanted, file=file, revision=self.commit)
        return Located(wanted, tuple(self.files[path] for path in paths), usual, self.licence)


def _listing(wanted: HubFile) -> _Listing:
    import huggingface_hub as hub

    try:
        with plain_errors(wanted):
            found = hub.HfApi().model_info(
                wanted.repo, revision=wanted.revision, files_metadata=True, timeout=_TIMEOUT_S
            )
            remote = {file.path: file for file in map(_remote, found.siblings or ()) if file is not None}
            return _Listing(wanted, remote, _matching(_SHA1, found.sha), _licence(found))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DownloadError(f"the model hub sent a listing of {wanted.repo} that cannot be read") from error
    except NoRepositoryError as error:
        raise _with_similar(wanted, error) from error


def _remote(sibling: RepoSibling) -> RemoteFile | None:
    """Return a file of the listing; None for a path that is not plain."""
    path, size = sibling.rfilename, sibling.size
    parts = PurePosixPath(path).parts
    if not path.isprintable() or path != "/".join(parts) or {"..", "/"} & set(parts) or "\\" in path:
        return None
    sha256 = _matching(_SHA256, sibling.lfs.sha256) if sibling.lfs else None
    sha1 = _matching(_SHA1, sibling.blob_id)
    return RemoteFile(path, size if isinstance(size, int) else None, sha256, sha1)


def _matching(form: re.Pattern[str], text: object) -> str | None:
    return text if isinstance(text, str) and form.fullmatch(text) else None


def _directory(wanted: HubFile, remote: Iterable[str]) -> list[str]:
    """Return the files that an export of a Hugging Face model reads. Raises NotFoundError."""
    present = set(remote)
    weights = [_WEIGHTS] if _WEIGHTS in present else sorted(filter(_SHARD.fullmatch, present))
    if wanted.quant or CONFIG not in present or not weights:
        raise NotFoundError(
            f"{wanted.repo} on the model hub has no GGUF file"
            + ("" if wanted.quant else ", and no safetensors with a config.json"),
            hint="search the hub for the model's name and GGUF",
        )
    index = [_INDEX] if weights != [_WEIGHTS] else []
    return [name for name in (*_TEXTS, *index) if name in present] + weights


def _licence(found: ModelInfo) -> Licence | None:
    """Return the licence that the repository's card states."""
    for tag in found.tags or ():
        if isinstance(tag, str) and tag.isprintable() and tag.startswith("license:"):
            name = tag.removeprefix("license:")
            return Licence(name[:80], f"https://huggingface.co/{found.id}")
    return None


def _with_similar(wanted: HubFile, error: NoRepositoryError) -> NoRepositoryError:
    """Return the error with names of repositories that are like the one that is missing, if there are any."""
    import huggingface_hub as hub

    name = wanted.repo.partition("/")[2]
    names: list[str] = []
    with suppress(EdgeDecError, KeyError, TypeError, ValueError, AttributeError), plain_errors(wanted):
        found = hub.HfApi().list_models(search=name, limit=20)
        names = [one.id for one in found if isinstance(one.id, str) and one.id.isprintable()]
    near = difflib.get_close_matches(wanted.repo, names, n=_NEAR, cutoff=0.5)
    if not near:
        return error
    return NoRepositoryError(
        error.message, hint=error.hint if "private" in error.message else None, near=near
    )
