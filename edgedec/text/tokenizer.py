"""Text <-> token ids, and text that appears while ids still arrive."""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgedec.bundle.manifest import TokenizerInfo
from edgedec.core.errors import BadFileError, EdgeDecError
from edgedec.text.control_tokens import GuardedText, guard_values, without_markers
from edgedec.text.encoder import SPACE
from edgedec.text.limits import TextLimits
from edgedec.text.pieces import PieceRule, piece_rule
from edgedec.text.table_encoder import open_encoder
from edgedec.text.template_inputs import TemplateInputs
from edgedec.text.token_lengths import BYTE_OF, CHAR_OF, TokenLengths

if TYPE_CHECKING:
    from edgedec.text.table_encoder import Encoder
    from edgedec.text.template import ChatTemplate

_AGAIN = "export or pull the model again"

_SHORT_CHARS = 8_192
"""Length up to which a text is encoded whole; nothing about cutting is found out for it."""
_LONG_PIECE_CHARS = 70_000
"""Length from which a piece is one that could not be cut; its tokens are estimated before it is encoded."""
_ENCODING_BYTES = 160
"""Memory that encoding takes for each byte of text, at most, as measured."""
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def valid_text(text: str) -> str:
    """Replace every lone surrogate by U+FFFD; Python reads input that is not UTF-8 as surrogates."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Tokenizer:
    """A bundle's tokenizer. Get one with ``Tokenizer.load``. Several threads may use it."""

    def __init__(self, encoder: Encoder, info: TokenizerInfo) -> None:
        self.info = info
        self._encoder = encoder
        self._adds_space = encoder.adds_space
        self._lengths = TokenLengths(encoder, info.kind)
        self._pieces: dict[int, bytes] = {}

    @classmethod
    def load(cls, bundle_dir: Path, info: TokenizerInfo, sha256: str | None = None) -> Tokenizer:
        """Read ``tokenizer.json`` of a bundle. ``sha256``: its hash, which is computed unless it is given.

        Raises BadFileError when it is missing or broken, UnsupportedError when its steps could multiply text.
        """
        return cls(open_encoder(bundle_dir, sha256), info)

    def encode(
        self,
        text: str,
        *,
        add_bos: bool | None = None,
        parse_special: bool = False,
        limits: TextLimits | None = None,
    ) -> list[int]:
        """Return the token ids of ``text``.

        ``add_bos`` puts the BOS token first; None follows the model's training. With ``parse_special`` the
        texts of control tokens (``<|im_end|>``) become those tokens; without it they are ordinary text, as
        user input must be. Lone surrogates are read as U+FFFD. A long text is encoded in pieces, to the same
        ids (see ``pieces``).

        Raises ContextFullError when the text becomes more tokens than ``limits`` allows, BadFileError when
        the tokenizer turns out to contradict itself.
        """
        ids = self._encode(GuardedText(text), parse_special, limits)
        return self._with_bos(ids) if (self.info.add_bos if add_bos is None else add_bos) else ids

    def encode_chat(
        self,
        template: ChatTemplate,
        messages: Sequence[Mapping[str, Any]],
        inputs: TemplateInputs | None = None,
        *,
        add_generation_prompt: bool = True,
        limits: TextLimits | None = None,
    ) -> list[int]:
        """Return ``encode_rendered(render_chat(...))``, with BOS once if the model wants it."""
        rendered = self.render_chat(template, messages, inputs, add_generation_prompt=add_generation_prompt)
        ids = self.encode_rendered(rendered, limits)
        return self.with_bos(ids)

    def render_chat(
        self,
        template: ChatTemplate,
        messages: Sequence[Mapping[str, Any]],
        inputs: TemplateInputs | None = None,
        *,
        add_generation_prompt: bool = True,
    ) -> GuardedText:
        """Render ``messages``. The template makes control tokens, a text of messages, tools or options never.

        Such texts are found also deep within them. If one contains the text of a control token, a marker
        character is put inside of it before rendering and removed afterwards. So the template can trim,
        slice and join contents as usual. A template that searches contents for such a text, for instance to
        cut off ``<think>`` parts, does not find it if it is a control token of this model.

        Raises TemplateError as ``ChatTemplate.render`` does.
        """
        inputs = inputs or TemplateInputs()
        whole = [list(messages), list(inputs.tools), dict(inputs.options)]
        (guarded, tools, options), marker = guard_values(whole, self._special_ids)
        text = template.render(
            guarded, TemplateInputs(tools, options), add_generation_prompt=add_generation_prompt
        )
        return without_markers(valid_text(text), marker)

    def encode_rendered(self, rendered: GuardedText, limits: TextLimits | None = None) -> list[int]:
        """Return the token ids of a rendered prompt, without BOS in front.

        They are those of ``encode(text, parse_special=True)``, but where the text is literal. Raises
        ContextFullError as ``encode`` does.
        """
        return self._encode(rendered, parse_special=True, limits=limits)

    def with_bos(self, ids: list[int]) -> list[int]:
        """Return the ids with BOS in front, where the model wants it and it is not there."""
        return self._with_bos(ids) if self.info.add_bos else ids

    def check_length(self, text: str, limits: TextLimits) -> None:
        """Raise ContextFullError if ``text`` is too long for ``limits`` by its bytes alone."""
        if self._surely_above(limits.most_tokens, text):
            raise limits.error()
        if len(text) > _LONG_PIECE_CHARS:
            limits.check(self._lengths.fewest(text))

    def most_bytes(self, tokens: int) -> int:
        """Bytes of UTF-8 beyond which a text is certainly more than ``tokens`` tokens."""
        return self._lengths.most_bytes(tokens)

    def token_text(self, token: int) -> str:
        """Return a token as the vocabulary spells it, ``<|im_end|>`` or ``Ġthe``; '' for no token."""
        return self._encoder.spelling(token) or ""

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes that a token adds to the text; b'' for control tokens and ids without a token."""
        piece = self._pieces.get(token)
        if piece is None:
            piece = self._pieces[token] = self.spell(token)
        return piece

    def spell(self, token: int) -> bytes:
        """Return ``token_bytes`` without remembering them, for whoever reads the whole vocabulary once."""
        added = self._encoder.added_token(token)
        if added is not None:
            return b"" if added.special else added.content.encode()
        text = self.token_text(token)
        if self.info.kind == "bpe":
            return b"".join(BYTE_OF.get(char, b"") or char.encode() for char in text)
        if match := _BYTE.fullmatch(text):
            return bytes([int(match[1], 16)])
        return text.replace(SPACE, " ").encode()

    def id_of(self, piece: bytes) -> int | None:
        """Find the token that adds exactly ``piece`` to a text; None if there is none."""
        if self.info.kind == "bpe":
            spellings = ["".join([CHAR_OF[byte] for byte in piece])]
        else:
            spellings = [piece.decode("utf-8", "replace").replace(" ", SPACE)]
            if len(piece) == 1:
                spellings.append(f"<0x{piece[0]:02X}>")
        spellings.append(piece.decode("utf-8", "replace"))  # added tokens are written as they are
        found = (self._encoder.id_of(text) for text in spellings)
        return next(
            (token for token in found if token is not None and self.token_bytes(token) == piece), None
        )

    def beginning_with(self, piece: bytes) -> list[int]:
        """Return the tokens that add ``piece``, or a text that begins with it."""
        added = self._encoder.added
        spelled = "".join([CHAR_OF[byte] for byte in piece]).encode()
        if self.info.kind != "bpe":
            spelled = piece.replace(b" ", SPACE.encode())
        found = [token for token in self._encoder.ids_with(spelled) if token not in added]
        if self.info.kind != "bpe":
            if spelled[:1] == b"<" or b"\xe2" in piece:  # tokens of bytes, and spaces, are spelled so
                found = [token for token in found if self.spell(token).startswith(piece)]
            if len(piece) == 1 and (token := self._encoder.id_of(f"<0x{piece[0]:02X}>")) is not None:
                found = [token, *(other for other in found if other != token)]
        texts = ((token, one.content) for token, one in added.items() if not one.special)
        return found + [token for token, text in texts if text.encode().startswith(piece)]

    def id_named(self, spelling: str) -> int | None:
        """Find the token that the vocabulary spells so, a control token or another; None if there is none."""
        return self._encoder.id_of(spelling) if spelling else None

    def encode_inside(self, text: str) -> list[int]:
        """Encode text that continues another text: no BOS, no space in front."""
        if not self._adds_space:
            return self._encode_plain(text)
        if text[:1] == " " and len(text) > 1:
            return self._encode_plain(text[1:])
        ids = self._encode_plain(f"\x01{text}")  # nothing joins up with that
        ahead = b""
        for at, token in enumerate(ids):
            if ahead == b" \x01":
                return ids[at:]
            ahead += self.token_bytes(token)
        return self._encode_plain(text)

    def vocabulary(self) -> dict[str, int]:
        """Return the id of every token, by its spelling in the vocabulary."""
        return self._encoder.vocabulary()

    def control_ids(self) -> dict[str, int]:
        """Return the id of every control token, by its text."""
        return dict(self._special_ids)

    def decode(self, ids: Iterable[int], spelled: Collection[int] = ()) -> str:
        """Return the text of ``ids``. Control tokens are silent but for those in ``spelled``.

        Bytes that are not UTF-8 become U+FFFD.
        """
        decoder = StreamDecoder(self, spelled)
        return "".join([decoder.push(token) for token in ids]) + decoder.flush()

    @property
    def size(self) -> int:
        """Number of tokens. A model may have more, as padding without meaning."""
        return self._encoder.size

    @property
    def mapped_bytes(self) -> int:
        """Bytes of a mapped file, of which encoding makes pages resident."""
        return self._encoder.mapped_bytes

    @property
    def adds_space(self) -> bool:
        """True if encoding puts a space in front of a text, which decoding removes."""
        return self._adds_space

    def _encode(self, given: GuardedText, parse_special: bool, limits: TextLimits | None) -> list[int]:
        if limits is not None:
            self.check_length(given.text, limits)
        ids: list[int] = []
        for piece in self._cut(given):
            if limits is None:
                ids += self._encode_piece(piece, parse_special)
                continue
            limits.check(len(ids))
            if len(piece.text) > _LONG_PIECE_CHARS:
                limits.check(len(ids) + self._lengths.fewest(piece.text))
            with limits.lease(_ENCODING_BYTES * len(piece.text.encode("utf-8", "surrogatepass"))):
                ids += self._encode_piece(piece, parse_special)
        return ids

    def _encode_plain(self, text: str) -> list[int]:
        return self._encode(GuardedText(text), parse_special=False, limits=None)

    def _encode_piece(self, piece: GuardedText, parse_special: bool) -> list[int]:
        encode = self._encoder.encode
        try:
            try:
                return encode(piece.text, parse_special=parse_special, literal=piece.literal)
            except (
                UnicodeEncodeError
            ):  # a rendered text has no surrogates, and so no other has literal places
                return encode(valid_text(piece.text), parse_special=parse_special)
        except EdgeDecError:
            raise
        except Exception as error:  # the library raises bare Exception, and finds some faults only now
            raise BadFileError(
                f"the model's tokenizer cannot encode this text: {error}", hint=_AGAIN
            ) from error

    def _cut(self, given: GuardedText) -> Iterator[GuardedText]:
        if len(given.text) <= _SHORT_CHARS or self._piece_rule is None:
            return iter((given,))
        return (given.part(start, end) for start, end in self._piece_rule.pieces(given.text))

    def _surely_above(self, tokens: int, text: str) -> bool:
        """Whether ``text`` is too long for ``tokens`` tokens by its bytes alone."""
        if 4 * len(text) <= tokens:
            return False
        if text.isascii():
            return len(text) > tokens and len(text) > self.most_bytes(tokens)
        return len(text) > self.most_bytes(tokens) or (
            len(text.encode("utf-8", "surrogatepass")) > self.most_bytes(tokens)
        )

    @cached_property
    def _piece_rule(self) -> PieceRule | None:
        return piece_rule(self._encoder, adds_space=self._adds_space)

    @cached_property
    def _special_ids(self) -> dict[str, int]:
        return {token.content: id for id, token in self._encoder.added.items() if token.special}

    def _with_bos(self, ids: list[int]) -> list[int]:
        bos = self.info.bos_id
        return ids if bos is None or ids[:1] == [bos] else [bos, *ids]


class StreamDecoder:
    """Turns ids into text one by one; ``push`` and the final ``flush`` together return ``decode(ids)``.

    Control tokens in ``spelled`` are written as the vocabulary spells them.
    """

    def __init__(self, tokenizer: Tokenizer, spelled: Collection[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._spelled = spelled
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._inside = False
        """Whether the ids so far end inside a character."""
        self._strip = tokenizer.adds_space
        self._unshown = 0

    def go_on(self, overlap: int) -> None:
        """Begin behind another text, which has the first ``overlap`` bytes of the next token already."""
        self._strip, self._unshown = False, overlap

    def push(self, token: int) -> str:
        """Return the text that ``token`` completes; '' while a character is still incomplete."""
        if self._spelled and token in self._spelled:
            return self._tokenizer.token_text(token)
        piece = self._tokenizer.token_bytes(token)
        if self._strip and piece:
            self._strip = False
            piece = piece.removeprefix(b" ")
        if self._unshown:
            piece, self._unshown = piece[self._unshown :], 0
        if piece.isascii() and not self._inside:  # as most are: what follows takes longer
            return str(piece, "ascii")
        text = self._utf8.decode(piece)
        self._inside = bool(self._utf8.getstate()[0])
        return text

    def flush(self) -> str:
        """Return U+FFFD if the ids ended inside a character, else ''. The decoder then starts afresh."""
        self._strip = self._tokenizer.adds_space
        rest = self._utf8.decode(b"", final=True)
        self._utf8.reset()
        self._inside = False
        return rest
