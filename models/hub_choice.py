"""Choose a GGUF file among those of a repository, as other runtimes choose it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from edgedec.core.errors import NotFoundError, UnsupportedError

USUAL = "Q4_K_M"
ORDER = (
    USUAL, "Q4_K_S", "Q4_0", "Q4_1", "Q5_K_M", "Q5_K_S", "Q5_0", "Q5_1", "Q6_K", "Q8_0", "IQ4_NL", "IQ4_XS",
    "MXFP4", "Q3_K_L", "Q3_K_M", "Q3_K_S", "Q2_K", "BF16", "F16", "F32",
)  # fmt: skip
"""Quantisations from the first choice to the last; others follow, sorted by file name."""

_QUANT = re.compile(
    r"(?<![A-Za-z0-9])((?:UD-)?(?:I?Q\d(?:_\w+)*|TQ\d_\d|MXFP4(?:_MOE)?|BF16|F16|FP16|F32))(?=[.-]|$)", re.I
)
_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})$")
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

    Files in folders count when the top has none that fits. Raises NotFoundError that lists the
    quantisations there are, and UnsupportedError for a file in several parts.
    """
    paths = list(paths)
    models = [path for path in paths if _is_model(path)]
    if not models and (drafters := sorted(filter(_is_drafter, paths))):
        raise NotFoundError(
            f"{repo} on the model hub has GGUF files of drafters alone: {', '.join(drafters[:4])}",
            hint="pull the model that they are for, then import one as a drafter of it",
        )
    if not models:
        raise NotFoundError(f"{repo} on the model hub has no GGUF file of a model")
    whole = [path for path in models if not _SPLIT.search(_stem(path))]
    if quant is None:
        if not whole:
            raise _in_parts(repo, models, whole)
        return min(whole, key=_rank)
    fitting = [path for path in models if _fits(path, quant)]
    if not fitting:
        raise NotFoundError(
            f"{repo} on the model hub has no {quant}", hint=f"it has {', '.join(quantisations(models))}"
        )
    if not set(fitting) & set(whole):
        raise _in_parts(repo, fitting, whole)
    return min(set(fitting) & set(whole), key=_rank)


def quantisations(paths: Iterable[str]) -> list[str]:
    """Return the quantisations of GGUF files, in the order of choice; file names for those without."""
    models = sorted((path for path in paths if _is_model(path)), key=_rank)
    return list(dict.fromkeys(quant_of(path) or path for path in models))


def _stem(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".gguf").removesuffix(".GGUF")


def _is_model(path: str) -> bool:
    return path.lower().endswith(".gguf") and not _ASIDE.search(path) and not _DRAFTER.search(path)


def _is_drafter(path: str) -> bool:
    return path.lower().endswith(".gguf") and bool(_DRAFTER.search(path))


def _fits(path: str, quant: str) -> bool:
    found = _SPLIT.sub("", _stem(path))
    return (quant_of(found) or "").upper() == quant.upper().replace("FP16", "F16")


def _rank(path: str) -> tuple[int, int, str]:
    found = quant_of(_SPLIT.sub("", _stem(path))) or ""
    order = ORDER.index(found) if found in ORDER else len(ORDER)
    return order, path.count("/"), path


def _in_parts(repo: str, parts: Sequence[str], whole: Sequence[str]) -> UnsupportedError:
    names = ", ".join(sorted(parts)[:4])
    others = f"choose {' or '.join(quantisations(whole))}" if whole else "there is none in one file"
    return UnsupportedError(
        f"{repo} has this model in parts: {names}",
        hint=f"{others}; or download the parts and merge them with llama-gguf-split --merge",
    )
