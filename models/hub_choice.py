"""Choose a GGUF file among those of a repository, as other runtimes choose it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from edgedec.core.errors import NotFoundError
from edgedec.export.gguf_parts import part_name

USUAL = "Q4_K_M"
ORDER = (
    USUAL, "Q4_K_S", "Q4_0", "Q4_1", "Q5_K_M", "Q5_K_S", "Q5_0", "Q5_1", "Q6_K", "Q8_0", "IQ4_NL", "IQ4_XS",
    "MXFP4", "NVFP4", "Q3_K_L", "Q3_K_M", "Q3_K_S", "Q2_K", "BF16", "F16", "F32",
)  # fmt: skip
"""Quantisations from the first choice to the last; others follow, sorted by file name."""

_QUANT = re.compile(
    r"(?<![A-Za-z0-9])((?:UD-)?(?:I?Q\d(?:_\w+)*|TQ\d_\d|MXFP4(?:_MOE)?|NVFP4|BF16|F16|FP16|F32))(?=[.-]|$)",
    re.I,
)
_ASIDE = re.compile(r"mmproj|imatrix|(?<![a-z])(?:lora|vocab|adapter)(?![a-z])|control-?vector", re.I)
"""Words in the names of GGUF files that hold no language model."""
_DRAFTER = re.compile(
    r"(?<![a-z0-9])(?:eagle-?[1-3]|dflash|medusa|drafter|draft-?model|speculator)(?![a-z0-9])"
    r"|(?:^|/)(?:mtp|nextn|draft|assistant)[-_./]|-assistant(?=[.-]|$)",
    re.I,
)
"""Words in the names of those that hold a drafter of one. ``...-MTP-...`` is a whole model with its layer."""


def quant_of(path: str) -> str | None:
    """Return the quantisation in a file's name, in upper case; None when it names none.

    >>> quant_of("folder/smollm2-360m-instruct-q8_0.gguf")
    'Q8_0'
    """
    found = _QUANT.findall(_stem(path))
    return str(found[-1]).upper().replace("FP16", "F16") if found else None


def choose(paths: Iterable[str], quant: str | None, repo: str) -> str:
    """Return the path of the GGUF file with a quantisation; with None the first that ``ORDER`` has.

    Of a model in parts it is the first. A file in one piece comes before it, and files in folders count when
    the top has none that fits. Raises NotFoundError that lists the quantisations there are.
    """
    paths = list(paths)
    models = [path for path in paths if is_model_file(path)]
    if not models and (drafters := sorted(filter(_is_drafter, paths))):
        raise NotFoundError(
            f"{repo} on the model hub has GGUF files of drafters alone: {', '.join(drafters[:4])}",
            hint="pull the model that they are for, then import one as a drafter of it",
        )
    if not models:
        raise NotFoundError(f"{repo} on the model hub has no GGUF file of a model")
    fitting = [path for path in models if quant is None or _fits(path, quant)]
    if not fitting:
        raise NotFoundError(
            f"{repo} on the model hub has no {quant}", hint=f"it has {', '.join(quantisations(models))}"
        )
    whole = [path for path in fitting if not _lacking(path, paths)]
    return parts_of(min(whole or fitting, key=_rank), paths, repo)[0]


def parts_of(path: str, paths: Iterable[str], repo: str) -> list[str]:
    """Return the paths of all parts of a GGUF file, in order; of a file in one piece, its own.

    Raises NotFoundError for a part that is not among ``paths``.
    """
    if missing := _lacking(path, paths):
        raise NotFoundError(
            f"{repo} on the model hub has {path} and lacks {min(missing)}, another part of this model",
            hint="choose another quantisation",
        )
    found = part_name(path)
    return found.all() if found else [path]


def _lacking(path: str, paths: Iterable[str]) -> set[str]:
    """Return the other parts of a file that are not among ``paths``."""
    found = part_name(path)
    return set(found.all()) - set(paths) if found else set()


def quantisations(paths: Iterable[str]) -> list[str]:
    """Return the quantisations of GGUF files, in the order of choice; file names for those without."""
    models = sorted((path for path in paths if is_model_file(path)), key=_rank)
    return list(dict.fromkeys(quant_of(path) or path for path in models))


def _stem(path: str) -> str:
    name = path.rpartition("/")[2]
    found = part_name(name)
    return found.stem if found else name.removesuffix(".gguf").removesuffix(".GGUF")


def is_model_file(path: str) -> bool:
    """Whether a file's name is that of a GGUF model, and of no drafter, adapter or encoder of pictures."""
    return path.lower().endswith(".gguf") and not _ASIDE.search(path) and not _DRAFTER.search(path)


def _is_drafter(path: str) -> bool:
    return path.lower().endswith(".gguf") and bool(_DRAFTER.search(path))


def _fits(path: str, quant: str) -> bool:
    return (quant_of(path) or "").upper() == quant.upper().replace("FP16", "F16")


def _rank(path: str) -> tuple[int, bool, int, str]:
    found = quant_of(path) or ""
    order = ORDER.index(found) if found in ORDER else len(ORDER)
    return order, part_name(path) is not None, path.count("/"), path
