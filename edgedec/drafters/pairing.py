"""Whether one model can draft for another, by their vocabularies, and the bridge between their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgedec.bundle.manifest import TOKENIZER, TOKENIZER_TABLE
from edgedec.core.errors import UnsupportedError
from edgedec.core.quick_dataclass import dataclass
from edgedec.draft.bridge import Bridge, SameVocabulary, TextBridge
from edgedec.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from edgedec.loaded_model import LoadedModel

LEAST_SHARE = 0.5
"""Smallest share of a text's tokens that a drafter must have to be of use."""

SAMPLE = (
    "The quick answer is that light is scattered by the air, and blue light more than red, because its waves "
    "are shorter. That was explained by Lord Rayleigh in 1871.\n\n"
    "1. First, measure twice; then cut once.\n2. Don't panic: photosynthesis isn't complicated.\n\n"
    "```python\ndef mean(values: list[float]) -> float:\n    if not values:\n        return 0.0\n"
    "    return sum(values) / len(values)  # 3.14159\n```\n"
    '{"name": "Ada", "born": 1815, "tags": ["mathematics", "engines"]}\n'
    "Der Zug fährt um 17:45 Uhr ab. ¿Dónde está la estación? Où est la gare ? 今天天气很好。\n"
)
"""English, lists, code, data and a little of other languages."""

_TURN_STARTS = ("<|im_start|>", "<start_of_turn>", "<|start_header_id|>")
_TURN_ENDS = ("<|im_end|>", "<end_of_turn>", "<|eot_id|>", "<|end|>")


@dataclass(frozen=True, slots=True)
class DifferingToken:
    """An id that the two vocabularies spell differently; '' where one has no such id."""

    id: int
    target: str
    draft: str


@dataclass(frozen=True, slots=True)
class Unsayable:
    """A token of the target, as in the sample, that the drafter says in several or other tokens."""

    target: str
    draft: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pairing:
    """How much of the target's text a drafter can express in its own tokens."""

    same: bool
    """The vocabularies are the same, id by id."""
    share_of_text: float
    """Share of the sample's tokens that the drafter has too; 0 to 1."""
    unsayable: tuple[Unsayable, ...]
    """Some of the others."""

    @property
    def possible(self) -> bool:
        return self.same or self.share_of_text >= LEAST_SHARE

    def examples(self) -> str:
        """Tokens that differ, in words."""
        spelled = ((one.target, " + ".join(map(repr, one.draft)) or "unknown") for one in self.unsayable)
        return ", ".join(f"{target!r} is {draft}" for target, draft in spelled)


def paired(target: Tokenizer, draft: Tokenizer, most: int = 5) -> Pairing:
    """Compare two tokenizers by their tokens for the sample; ``most`` examples."""
    alike = target.size == draft.size and target.info.kind == draft.info.kind
    if alike and target.vocabulary() == draft.vocabulary():
        return Pairing(True, 1.0, ())
    sample = target.encode(SAMPLE, add_bos=False)
    missing = [token for token in sample if not _has(target, draft, token)]
    unsayable = tuple(_unsayable(target, draft, token) for token in list(dict.fromkeys(missing))[:most])
    return Pairing(False, 1.0 - len(missing) / max(len(sample), 1), unsayable)


def differing_ids(target: Tokenizer, draft: Tokenizer) -> list[DifferingToken]:
    """Every id that is spelled differently, ascending."""
    theirs, mine = ({id: text for text, id in one.vocabulary().items()} for one in (target, draft))
    return [
        DifferingToken(id, theirs.get(id, ""), mine.get(id, ""))
        for id in sorted(theirs.keys() | mine)
        if theirs.get(id) != mine.get(id)
    ]


def share_of_vocabulary(target: Tokenizer, draft: Tokenizer) -> float:
    """Share of the target's text tokens that the drafter has too; 0 to 1. Takes a second."""
    tokens = [token for token in target.vocabulary().values() if target.token_bytes(token)]
    return sum(_has(target, draft, token) for token in tokens) / max(len(tokens), 1)


def same_tokenizer(target: LoadedModel, draft: LoadedModel) -> bool:
    """Whether both bundles have the very same tokenizer file, which settles it."""
    for name in (TOKENIZER, TOKENIZER_TABLE):
        files = [model.manifest.files.get(name) for model in (target, draft)]
        if files[0] is not None and files[1] is not None:
            return files[0] == files[1]
    return False


def require(pairing: Pairing, target: str, draft: str) -> None:
    """Raises UnsupportedError, naming tokens that differ, unless the pair is possible."""
    if pairing.possible:
        return
    raise UnsupportedError(
        f"{draft} cannot draft for {target}: it can say {pairing.share_of_text:.0%} of a text's tokens, and "
        f"{LEAST_SHARE:.0%} are needed; {pairing.examples()}",
        hint="a smaller model of the same family has the same vocabulary",
    )


def bridge(target: LoadedModel, draft: LoadedModel, *, same: bool) -> Bridge:
    """Make the bridge between the tokens of two models."""
    if same:
        return SameVocabulary(min(target.spec.vocab_size, draft.spec.vocab_size))
    info = draft.tokenizer.info
    opening = [info.bos_id] if info.add_bos and info.bos_id is not None else []
    return TextBridge(
        target.tokenizer,
        draft.tokenizer,
        control_tokens(target.tokenizer, draft.tokenizer),
        draft_size=draft.spec.vocab_size,
        opening=opening,
    )


def control_tokens(target: Tokenizer, draft: Tokenizer) -> dict[int, int]:
    """The drafter's control token for each of the target's: of the same text, or else of the same role."""
    theirs, mine = target.control_ids(), draft.control_ids()
    found = {theirs[text]: mine[text] for text in theirs if text in mine}
    for texts in (_TURN_STARTS, _TURN_ENDS):
        _match(found, _present(theirs, texts), _present(mine, texts))
    _match(found, target.info.eos_ids, draft.info.eos_ids)
    ends = [info.bos_id for info in (target.info, draft.info)]
    if ends[0] is not None and ends[1] is not None:
        found.setdefault(ends[0], ends[1])
    return found


def _match(found: dict[int, int], theirs: Sequence[int], mine: Sequence[int]) -> None:
    for token in theirs:
        if mine:
            found.setdefault(token, mine[0])


def _present(ids: dict[str, int], texts: Sequence[str]) -> list[int]:
    return [ids[text] for text in texts if text in ids]


def _has(target: Tokenizer, draft: Tokenizer, token: int) -> bool:
    piece = target.token_bytes(token)
    return bool(piece) and draft.id_of(piece) is not None


def _unsayable(target: Tokenizer, draft: Tokenizer, token: int) -> Unsayable:
    text = target.token_bytes(token).decode("utf-8", "replace")
    pieces = (draft.token_bytes(one).decode("utf-8", "replace") for one in draft.encode_inside(text))
    return Unsayable(text, tuple(filter(None, pieces)))
