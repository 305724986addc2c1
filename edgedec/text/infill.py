"""Prompts for the text between two others, of models with tokens for it: fill in the middle.

The tokens are those that a GGUF file names, or well-known ones of the vocabulary. Texts never have control
tokens here: those in them are spelt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgedec.core.errors import UnsupportedError, UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.text.token_healing import Healed, healed

if TYPE_CHECKING:
    from edgedec.text.limits import TextLimits
    from edgedec.text.tokenizer import Tokenizer

_PROJECT, _FILE = "project\n", "filename\n"
"""Names of a repository and of the file with the gap, which nobody stated."""


@dataclass(frozen=True, slots=True)
class Infill:
    """The texts before and behind a gap, and the beginning of the text in it.

    ``extra`` has other files, each with name and text. Raises UsageError where all are empty.
    """

    prefix: str
    suffix: str
    begun: str = ""
    extra: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not (self.prefix or self.suffix or self.begun):
            raise UsageError("there is no text around the gap", hint="give the text before or behind it")


@dataclass(frozen=True, slots=True)
class InfillPrompt:
    """The token ids before a reply that fills a gap, and those that end it beside the model's own.

    ``held``: bytes at the end of the given text that are taken back; see ``token_healing``.
    """

    ids: list[int]
    ends: frozenset[int] = frozenset()
    held: bytes = b""


@dataclass(frozen=True, slots=True)
class _Form:
    """Texts of a family's tokens, and of those that no filled gap has."""

    prefix: str
    suffix: str
    middle: str = ""
    others: tuple[str, ...] = ()
    repository: str = ""
    file: str = ""
    suffix_first: bool = False


@dataclass(frozen=True, slots=True)
class _Tokens:
    """Ids of a model; ``middle`` and below are None where it has none."""

    prefix: int
    suffix: int
    middle: int | None
    repository: int | None
    file: int | None
    ends: frozenset[int]
    suffix_first: bool


_REPOSITORY = ("<|repo_name|>", "<|file_sep|>")
_FORMS = (
    # Qwen2.5-Coder, Granite 4, CodeGemma
    _Form("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", ("<|fim_pad|>",), *_REPOSITORY),
    # StarCoder 2, Granite code
    _Form("<fim_prefix>", "<fim_suffix>", "<fim_middle>", ("<fim_pad>",), "<repo_name>", "<file_sep>"),
    # SantaCoder
    _Form("<fim-prefix>", "<fim-suffix>", "<fim-middle>", ("<fim-pad>",)),
    # CodeLlama
    _Form("\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>", ("\u2581<EOT>",)),
    # DeepSeek
    _Form("<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581hole\uff5c>", "<\uff5cfim\u2581end\uff5c>"),
    # GLM
    _Form("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"),
    # Seed-Coder
    _Form("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", suffix_first=True),
    # Codestral
    _Form("[PREFIX]", "[SUFFIX]", suffix_first=True),
)


def names_infill(vocabulary: bytes) -> bool:
    """Whether the file of a vocabulary has the tokens of a family; nothing is parsed."""
    return any(form.prefix.encode() in vocabulary and form.suffix.encode() in vocabulary for form in _FORMS)


def infills(tokenizer: Tokenizer) -> bool:
    """Whether a model has tokens for the text between two others."""
    return _tokens(tokenizer) is not None


def infill_prompt(
    tokenizer: Tokenizer, given: Infill, limits: TextLimits | None = None, *, heal: bool = False
) -> InfillPrompt:
    """Return the prompt of a reply that fills a gap; ``heal``: without a beginning of a token before the gap.

    The text before the gap begins as a text does, with the space that a tokenizer puts there. The others go
    on in the middle, and get none. Raises UnsupportedError for a model without such tokens, ContextFullError
    for texts that are certainly too long.
    """
    tokens = _tokens(tokenizer)
    if tokens is None:
        raise UnsupportedError(
            "this model has no tokens for the text between two others",
            hint="use one that was trained for it, such as qwen2.5-coder-0.5b",
        )
    if limits:
        texts = "".join([*(text for _, text in given.extra), given.prefix, given.suffix, given.begun])
        tokenizer.check_length(texts, limits)
    ids, prefix = _before(tokenizer, tokens, given)
    before = Healed(tokenizer.encode(prefix, add_bos=False, limits=limits))
    begun = Healed(tokenizer.encode_inside(given.begun) if given.begun else [])
    if heal and given.begun:
        begun = healed(tokenizer, begun.ids)
    elif heal:
        before = healed(tokenizer, before.ids)
    head = [tokens.prefix, *before.ids]
    tail = [tokens.suffix, *tokenizer.encode_inside(given.suffix)]
    parts = [tail, head] if tokens.suffix_first else [head, tail]
    ids += [*parts[0], *parts[1]]
    if tokens.middle is not None:
        ids.append(tokens.middle)
    return InfillPrompt(tokenizer.with_bos([*ids, *begun.ids]), tokens.ends, begun.held or before.held)


def _before(tokenizer: Tokenizer, tokens: _Tokens, given: Infill) -> tuple[list[int], str]:
    """Return the tokens of other files, and the text before the gap with those that no token can part."""
    if not given.extra:
        return [], given.prefix
    if tokens.file is None:
        return [], "".join(f"--- {name} ---\n{text}\n\n" for name, text in given.extra) + given.prefix
    ids: list[int] = []
    if tokens.repository is not None:
        ids += [tokens.repository, *tokenizer.encode_inside(_PROJECT)]
    for name, text in given.extra:
        ids += [tokens.file, *tokenizer.encode_inside(f"{name}\n{text}")]
    return [*ids, tokens.file, *tokenizer.encode_inside(_FILE)], given.prefix


def _tokens(tokenizer: Tokenizer) -> _Tokens | None:
    """Return the ids of a model: of the first family whose tokens it has, or those that its file named."""
    for form in _FORMS:
        prefix, suffix, middle = (
            tokenizer.id_named(text) for text in (form.prefix, form.suffix, form.middle)
        )
        if prefix is None or suffix is None or (form.middle and middle is None):
            continue
        repository, file = (tokenizer.id_named(text) for text in (form.repository, form.file))
        others = (tokenizer.id_named(text) for text in form.others)
        ends = {id for id in (prefix, suffix, middle, repository, file, *others) if id is not None}
        return _Tokens(prefix, suffix, middle, repository, file, frozenset(ends), form.suffix_first)
    if named := tokenizer.info.infill:
        prefix, suffix, middle = named
        return _Tokens(prefix, suffix, middle, None, None, frozenset(named), suffix_first=False)
    return None
