from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgedec.backends.fake import MarkovForward
from edgedec.core.errors import UnsupportedError
from edgedec.decode.engine import Engine
from edgedec.decode.speculation import Speculation
from edgedec.draft.bridge import SameVocabulary, TextBridge
from edgedec.draft.model import ModelDrafter
from edgedec.drafters.model import model_drafter
from edgedec.drafters.pairing import (
    DifferingToken,
    control_tokens,
    differing_ids,
    paired,
    share_of_vocabulary,
)
from edgedec.sampling import DrawParams
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures.bridged import Sketch, chained, ends, in_target_ids, to_target
from tests.fixtures.ready import Ready, ready_of
from tests.fixtures.tiny_tokenizers import bpe_metadata, built, spm_metadata
from tests.session.parrot import codec_of, load_parrot, make_tokenizer

WORDS = {"▁t": -1.0, "he": -2.0, "▁the": -3.0, "▁a": -4.0, "ll": -5.0, "llo": -6.0, "hello": -7.0, "▁": -8.0}
# SentencePiece's own space cannot be told from a space in its texts.
OTHERS = st.characters(codec="utf-8", exclude_characters="▁")
TEXTS = st.text(st.sampled_from("the aloisfwrdn \n🙂éß日<|>.") | OTHERS, max_size=60)


def folder(root: Path, name: str) -> Path:
    (root / name).mkdir()
    return root / name


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    root = tmp_path_factory.mktemp("vocabularies")
    letters = {chr(code): -20.0 - code for code in range(0x21, 0x7F)}
    # No added tokens but control tokens: the library puts a space behind each of them, too.
    plain = [3] * 5 + [1] + [6] * 256 + [1] * (len(WORDS) + len(letters))
    return {
        "bpe": built(folder(root, "bpe"), bpe_metadata()),
        "smaller": make_tokenizer(folder(root, "smaller")),
        "spm": built(folder(root, "spm"), spm_metadata({**WORDS, **letters})),
        "spaced": built(
            folder(root, "spaced"),
            spm_metadata({**WORDS, **letters}, add_space_prefix=True, token_type=plain),
        ),
    }


PAIRS = [
    ("bpe", "spm"),
    ("spm", "bpe"),
    ("bpe", "smaller"),
    ("spm", "spaced"),
    ("spaced", "bpe"),
    ("bpe", "spaced"),
]


def between(vocabularies: dict[str, Tokenizer], target: str, draft: str) -> TextBridge:
    theirs, mine = vocabularies[target], vocabularies[draft]
    return TextBridge(
        theirs, mine, control_tokens(theirs, mine), draft_size=1 + max(mine.vocabulary().values())
    )


def spelled(tokenizer: Tokenizer, ids: Sequence[int]) -> bytes:
    return b"".join(tokenizer.token_bytes(token) for token in ids)


def whole_text(raw: bytes) -> tuple[str, bytes]:
    """A text, and the bytes of a character that its end cuts."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return decoder.decode(raw), decoder.getstate()[0]


@pytest.mark.parametrize("name", ["bpe", "smaller", "spm", "spaced"])
def test_a_token_is_found_by_its_bytes(vocabularies: dict[str, Tokenizer], name: str) -> None:
    one = vocabularies[name]
    for token in range(one.size):
        piece = one.token_bytes(token)
        if piece:
            assert one.token_bytes(one.id_of(piece) or 0) == piece, one.token_text(token)
    assert one.id_of("the hello 🙂 of".encode()) is None
    assert one.id_of(b"") is None


@pytest.mark.parametrize("name", ["bpe", "spm", "spaced"])
@settings(max_examples=60, deadline=None)
@given(text=TEXTS)
@example(text=" the")
@example(text=" ")
@example(text="\n the")
def test_text_inside_a_text_keeps_its_bytes(vocabularies: dict[str, Tokenizer], name: str, text: str) -> None:
    assert spelled(vocabularies[name], vocabularies[name].encode_inside(text)) == text.encode()


@pytest.mark.parametrize("pair", PAIRS)
@settings(max_examples=40, deadline=None)
@given(text=TEXTS, cuts=st.lists(st.integers(1, 7), max_size=20), kept=st.integers(0, 60), more=TEXTS)
def test_the_drafter_reads_the_same_text(
    vocabularies: dict[str, Tokenizer],
    pair: tuple[str, str],
    text: str,
    cuts: list[int],
    kept: int,
    more: str,
) -> None:
    """However it arrives, also after a part was taken back: all but the half character at its end."""
    target, draft = (vocabularies[name] for name in pair)
    bridge = between(vocabularies, *pair)
    tokens = target.encode(text * 3, add_bos=False)
    bridge.begin(tokens[:3], 0)
    at = 3
    for cut in cuts:
        bridge.commit(tokens[at : at + cut])
        at += cut
    bridge.commit(tokens[at:])
    assert spelled(draft, bridge.read()) == whole_text(spelled(target, tokens))[0].encode()
    second = [*tokens[:kept], *target.encode(more, add_bos=False)]
    bridge.begin(second, min(kept, len(tokens)))
    assert spelled(draft, bridge.read()) == whole_text(spelled(target, second))[0].encode()
    fresh = between(vocabularies, *pair)
    fresh.begin(second, 0)
    assert bridge.read() == fresh.read()


@pytest.mark.parametrize("pair", PAIRS)
@settings(max_examples=60, deadline=None)
@given(before=TEXTS, text=TEXTS, cut=st.integers(0, 3))
@example(before="x 🙂", text="🙂 the hello", cut=0)
def test_a_draft_keeps_its_text(
    vocabularies: dict[str, Tokenizer], pair: tuple[str, str], before: str, text: str, cut: int
) -> None:
    """What comes out spells the beginning of what went in; a chain stays a chain, as probable as drafted."""
    target, draft = (vocabularies[name] for name in pair)
    bridge = between(vocabularies, *pair)
    tokens = target.encode(before, add_bos=False)
    tokens = tokens[: max(len(tokens) - cut, 0)]  # perhaps inside a character
    bridge.begin(tokens, 0)
    bridge.read()
    half = whole_text(spelled(target, tokens))[1]
    drafted = draft.encode_inside(text)
    said = in_target_ids(bridge, chained(drafted))
    came, went = spelled(target, said.tokens), spelled(draft, drafted)
    assert went.startswith(half + came) or not came
    assert said.parents == list(range(-1, len(said.tokens) - 1))
    assert set(said.reach) <= {1.0}
    if not half:
        assert came == went


def test_one_token_for_several(vocabularies: dict[str, Tokenizer]) -> None:
    """Where the draft might end, the word might end, too; what goes on is another token."""
    bpe, spm = vocabularies["bpe"], vocabularies["spm"]
    bridge = between(vocabularies, "bpe", "spm")
    bridge.begin(bpe.encode("x", add_bos=False), 0)
    bridge.read()
    drafted = spm.encode_inside(" the of")
    assert [spm.token_bytes(token) for token in drafted] == [b" the", b" ", b"o", b"f"]
    sketch = Sketch(drafted, [-1, 0, 1, 2], [0.9, 0.9, 0.8, 0.6])
    said = in_target_ids(bridge, sketch)
    found = {
        tuple(bpe.token_bytes(token) for token in said.path(node)): pytest.approx(reach)
        for node, reach in enumerate(said.reach)
    }
    assert found == {
        (b" the",): 0.9,
        (b" the", b" "): 0.1,
        (b" the", b" o"): 0.2,
        (b" the", b" of"): 0.6,
    }


def test_branches_share_what_they_begin_with(vocabularies: dict[str, Tokenizer]) -> None:
    bpe, small = vocabularies["bpe"], vocabularies["smaller"]
    bridge = between(vocabularies, "bpe", "smaller")
    bridge.begin(bpe.encode("x", add_bos=False), 0)
    bridge.read()
    of, the, a = (small.encode_inside(text)[0] for text in (" of", " the", " a"))
    said = in_target_ids(bridge, Sketch([of, the, a], [-1, 0, 0], [0.8, 0.6, 0.1]))
    assert said.tokens == [bpe.encode_inside(text)[0] for text in (" of", " the", " a")]
    assert said.parents == [-1, 0, 0]
    assert said.reach == pytest.approx([0.8, 0.6, 0.1])


def test_half_characters(vocabularies: dict[str, Tokenizer]) -> None:
    """The committed text ends inside a character: the draft says all of it, the rest is what it proposes."""
    bpe, small = vocabularies["bpe"], vocabularies["smaller"]
    bridge = between(vocabularies, "bpe", "smaller")
    raw = bpe.encode("a🙂", add_bos=False)
    assert len(raw) == 5
    bridge.begin(raw[:3], 0)
    assert spelled(small, bridge.read()) == b"a"
    said = in_target_ids(bridge, chained(small.encode_inside("🙂 the")))
    assert [*raw[:3], *said.tokens] == bpe.encode("a🙂 the", add_bos=False)
    assert spelled(bpe, in_target_ids(bridge, chained(small.encode_inside("🚀"))).tokens) == "🚀".encode()[2:]
    assert in_target_ids(bridge, chained(small.encode_inside("b"))).tokens == []
    bridge.begin(raw[:1], 1)
    bridge.read()
    assert in_target_ids(bridge, chained(small.encode_inside("🙂")[:2])).tokens == []


def test_a_token_across_the_end_of_what_is_committed(tmp_path: Path) -> None:
    """The target said the first byte of a character for which it has a token of its own."""
    plain = bpe_metadata()
    pieces, merges = plain["tokenizer.ggml.tokens"], plain["tokenizer.ggml.merges"]
    metadata = bpe_metadata(
        tokens=[*pieces, "Ã©"], merges=[*merges, "Ã ©"], token_type=[*plain["tokenizer.ggml.token_type"], 1]
    )
    target, draft = built(folder(tmp_path, "target"), metadata), make_tokenizer(folder(tmp_path, "draft"))
    assert len(target.encode("é", add_bos=False)) == 1
    first = target.id_of(b"\xc3")
    assert first is not None
    bridge = TextBridge(target, draft, control_tokens(target, draft), draft_size=400)
    bridge.begin([*target.encode("a", add_bos=False), first], 0)
    assert spelled(draft, bridge.read()) == b"a"
    assert in_target_ids(bridge, chained(draft.encode_inside("é the"))).tokens == []


def test_control_tokens_go_by_text_and_by_role(vocabularies: dict[str, Tokenizer]) -> None:
    bpe, small, spm = (vocabularies[name] for name in ("bpe", "smaller", "spm"))
    same = control_tokens(bpe, small)
    assert {bpe.token_text(mine): small.token_text(theirs) for mine, theirs in same.items()} == {
        text: text for text in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    }
    other = control_tokens(bpe, spm)
    assert {bpe.token_text(mine): spm.token_text(theirs) for mine, theirs in other.items()} == {
        "<|im_end|>": "<end_of_turn>",
        "<|im_start|>": "<bos>",
        "<|endoftext|>": "<eos>",
    }


def test_control_tokens_are_read_and_end_a_draft(vocabularies: dict[str, Tokenizer]) -> None:
    bpe, small = vocabularies["bpe"], vocabularies["smaller"]
    bridge = between(vocabularies, "bpe", "smaller")
    text = "<|im_start|>user\nhello<|im_end|>\n"
    bridge.begin(bpe.encode(text, parse_special=True), 0)
    assert bridge.read() == small.encode(text, parse_special=True)
    end = small.control_ids()["<|im_end|>"]
    assert ends(bridge, end)
    said = in_target_ids(bridge, chained([*small.encode_inside(" the"), end]))
    assert said.tokens == [*bpe.encode_inside(" the"), bpe.control_ids()["<|im_end|>"]]
    assert in_target_ids(bridge, chained([end])).tokens == [bpe.control_ids()["<|im_end|>"]]


def test_a_control_token_without_a_counterpart_is_not_said(vocabularies: dict[str, Tokenizer]) -> None:
    spm, bpe = vocabularies["spm"], vocabularies["bpe"]
    bridge = between(vocabularies, "spm", "bpe")
    ids = spm.encode("hello", add_bos=False)
    bridge.begin([spm.control_ids()["<pad>"], *ids], 0)
    assert bridge.read() == bpe.encode_inside("hello")
    assert in_target_ids(bridge, chained([bpe.control_ids()["<|endoftext|>"]])).tokens == []


def test_what_the_drafter_begins_with(vocabularies: dict[str, Tokenizer]) -> None:
    spm = vocabularies["spm"]
    bridge = TextBridge(
        vocabularies["bpe"], spm, control_tokens(vocabularies["bpe"], spm), draft_size=400, opening=[2]
    )
    hello = vocabularies["bpe"].encode("hello", add_bos=False)
    bridge.begin(hello, 0)
    assert bridge.read() == [2, *spm.encode_inside("hello")]
    bridge.begin([1, *hello], 0)  # the target's own beginning: not twice
    assert bridge.read() == [2, *spm.encode_inside("hello")]


def test_ids_of_the_same_meaning(vocabularies: dict[str, Tokenizer]) -> None:
    bpe, spm = vocabularies["bpe"], vocabularies["spm"]
    bridge = between(vocabularies, "bpe", "spm")
    the, end, pad = (
        spm.encode_inside(" the")[0],
        spm.control_ids()["<end_of_turn>"],
        spm.control_ids()["<pad>"],
    )
    for _ in range(2):
        assert to_target(bridge, [the, end, pad]) == [
            bpe.encode_inside(" the")[0],
            bpe.control_ids()["<|im_end|>"],
            -1,
        ]


def test_the_work_per_token_does_not_grow(
    vocabularies: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the end of the text is tokenised again; a text without words, too."""
    small, sizes = vocabularies["smaller"], list[int]()
    encode = small.encode_inside

    def counted(text: str) -> list[int]:
        sizes.append(len(vocabularies["bpe"].encode(text, add_bos=False)))
        return encode(text)

    monkeypatch.setattr(small, "encode_inside", counted)
    for text in (" the world is a", "thethethe", "日本"):
        bridge = between(vocabularies, "bpe", "smaller")
        bridge.begin(vocabularies["bpe"].encode(text * 200, add_bos=False), 0)
        assert bridge.nbytes() > 4 * len(bridge.read())
    assert 16 <= max(sizes) <= 67  # 64, and a character


def loaded(root: Path, name: str, tokenizer: Tokenizer, seed: int = 0) -> Ready:
    """A made-up model that has this vocabulary."""
    forward = MarkovForward(
        vocab_size=1 + max(tokenizer.vocabulary().values()), capacity=400, sharpness=9.0, seed=seed
    )
    return ready_of(forward, codec_of(tokenizer))


def drafter_of(target: Ready, draft: Ready) -> ModelDrafter:
    return model_drafter("small", target.loaded, draft.loaded, draft.forward)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_tokens_are_those_of_plain_decoding(
    tmp_path: Path, vocabularies: dict[str, Tokenizer], pair: tuple[str, str], temperature: float
) -> None:
    """Markov models speak noise: half characters, control tokens, padding."""
    params = DrawParams(temperature=temperature, seed=1)
    models = [loaded(tmp_path, name, vocabularies[name]) for name in pair]
    said: list[str] = []
    drafter = drafter_of(*models)
    assert isinstance(drafter.bridge, TextBridge if pair != ("spm", "spaced") else SameVocabulary)
    speculation = Speculation([drafter], notice=said.append)
    engine = Engine(models[0].forward, speculation=speculation)
    plain = loaded(tmp_path, "plain", vocabularies[pair[0]]).forward
    prompt = vocabularies[pair[0]].encode("hello the world", add_bos=False)
    for turn in (prompt, [*prompt, 280], prompt[:2]):
        got = [step.token for step in engine.generate(turn, params, max_tokens=60, stop_ids=())]
        steps = Engine(plain).generate(turn, params, max_tokens=60, stop_ids=())
        assert got == [step.token for step in steps]
    assert said == []
    assert speculation.tally.drafted > 0


class Reads:
    """A Forward that goes on with ``text`` as its tokenizer spells it, wherever it stands in it."""

    def __init__(self, tokenizer: Tokenizer, text: str) -> None:
        self._tokenizer, self._text = tokenizer, text.encode()

    def __call__(self, context: list[int]) -> int:
        said = spelled(self._tokenizer, context)
        rest = self._text[len(said) :] if self._text.startswith(said) else b""
        if not rest:
            return 0
        inside = 0x80 <= rest[0] < 0xC0  # of a character
        return (
            self._tokenizer.id_of(rest[:1]) or 0
            if inside
            else self._tokenizer.encode_inside(rest.decode())[0]
        )


@pytest.mark.parametrize("pair", PAIRS)
def test_a_drafter_that_knows_the_text_is_right(
    tmp_path: Path, vocabularies: dict[str, Tokenizer], pair: tuple[str, str]
) -> None:
    """Same text, other tokens: nearly all of what is drafted is accepted."""
    text = "hello the world is a world of the 🙂 and hello to é and the end of it" * 3
    target, draft = (vocabularies[name] for name in pair)
    tokens = target.encode_inside(text)
    parrot = load_parrot(folder(tmp_path, "parrot"), speak=Reads(draft, text)).forward
    parrot.spec = replace(parrot.spec, vocab_size=draft.size)
    small = ModelDrafter("small", parrot, between(vocabularies, *pair))
    at, drafted, accepted = 4, 0, 0
    small.begin(tokens[:at], 0)
    while at < len(tokens) - 20:
        tree = small.propose(12, 0.1)
        right = 0
        while right < len(tree) and tree.tokens[right] == tokens[at + right]:
            right += 1
        drafted, accepted = drafted + len(tree), accepted + right
        small.commit(tokens[at : at + right + 1])
        at += right + 1
    assert accepted > 0.75 * drafted
    assert drafted > 0
    ahead = small.ahead(tokens[:6], 8)
    assert ahead == ModelDrafter("fresh", parrot, between(vocabularies, *pair)).ahead(tokens[:6], 8)
    assert ahead[:2] == tokens[6:8]


def test_the_same_tokenizer_needs_no_text(tmp_path: Path, vocabularies: dict[str, Tokenizer]) -> None:
    first, second = (loaded(tmp_path, name, vocabularies["bpe"]) for name in ("first", "second"))
    assert paired(first.tokenizer, second.tokenizer).same
    assert isinstance(drafter_of(first, second).bridge, SameVocabulary)


def test_a_few_differing_tokens_are_named(tmp_path: Path) -> None:
    metadata = bpe_metadata()
    other = bpe_metadata()
    other["tokenizer.ggml.tokens"] = ["<|endoftext|>", "<|start|>", *metadata["tokenizer.ggml.tokens"][2:]]
    both = built(folder(tmp_path, "a"), metadata), built(folder(tmp_path, "b"), other)
    assert differing_ids(*both) == [DifferingToken(1, "<|im_start|>", "<|start|>")]
    pairing = paired(*both)
    assert not pairing.same
    assert pairing.possible
    assert pairing.share_of_text == 1.0
    assert pairing.examples() == ""
    assert share_of_vocabulary(*both) == 1.0


def test_the_share_of_the_vocabulary(vocabularies: dict[str, Tokenizer]) -> None:
    bpe, smaller = vocabularies["bpe"], vocabularies["smaller"]
    theirs, mine = ({one.token_bytes(token) for token in one.vocabulary().values()} for one in (bpe, smaller))
    assert share_of_vocabulary(bpe, smaller) == len(theirs & mine - {b""}) / len(theirs - {b""}) < 1.0


def test_a_vocabulary_with_nothing_in_common_is_refused(
    tmp_path: Path, vocabularies: dict[str, Tokenizer]
) -> None:
    """Tokens of two letters at least, where the target has bytes."""
    snow = built(folder(tmp_path, "snow"), spm_metadata({"☃☃": -1.0, "☃☃☃": -2.0}, token_type=[3] * 264))
    target = loaded(tmp_path, "target", vocabularies["bpe"])
    with pytest.raises(UnsupportedError, match="cannot draft for fake") as caught:
        drafter_of(target, loaded(tmp_path, "draft", snow))
    assert "'he' is unknown" in caught.value.message
