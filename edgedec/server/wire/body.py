"""The body of a request: JSON with known fields, others that are harmless, and the rest refused by name.

A field that would change the reply and does nothing here is refused. One that is null, or that asks for the
usual, is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, from_json

from edgedec.server.wire.errors import ApiError, invalid

HARMLESS = frozenset(
    {
        "client_metadata", "metadata", "moderation", "parallel_tool_calls", "prompt_cache_key",
        "prompt_cache_options", "prompt_cache_retention", "safety_identifier", "service_tier", "store",
        "user",
    }
)  # fmt: skip
"""Fields that change no reply."""
_OF_OTHERS = frozenset(
    {
        "cache_prompt", "chat_id", "id_slot", "include_reasoning", "keep_alive", "num_ctx", "provider",
        "return_progress", "route", "session_id", "timings_per_token", "transforms", "usage",
    }
)  # fmt: skip
"""Fields of other servers and routers, which say how a request is served."""
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
MaxTokens = Annotated[
    Annotated[int, Field(ge=1)] | None, BeforeValidator(lambda given: None if given == -1 else given)
]
"""Most tokens of a reply; -1, as other servers have it, is no bound."""
_SHOWN_CHARS = 40
M = TypeVar("M", bound=BaseModel)


class Refusal:
    """A field that is not supported: the values that ask for nothing, and words on what would work."""

    def __init__(self, why: str, *neutral: object) -> None:
        self.why, self.neutral = why, neutral


class RequestBody(BaseModel):
    """A request's body. Fields that are not declared are in ``others``."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False, protected_namespaces=())

    harmless: ClassVar[frozenset[str]] = HARMLESS | _OF_OTHERS
    refused: ClassVar[Mapping[str, Refusal]] = {}

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Read JSON. Raises ApiError, with the field and what would work."""
        try:
            given = from_json(data, allow_inf_nan=False)
        except ValueError as error:
            raise invalid(f"the body is not JSON: {error}") from None
        if not isinstance(given, dict):
            raise invalid("the body must be a JSON object")
        return checked(cls, {name: value for name, value in given.items() if value is not None})

    @property
    def others(self) -> dict[str, Any]:
        """Fields that are not declared."""
        return dict(self.model_extra or {})

    def refuse_others(self, known: Sequence[str] = ()) -> None:
        """Raise ApiError for a field that is neither declared nor ``known`` nor harmless."""
        for name, value in self.others.items():
            if name in known or name in self.harmless:
                continue
            refusal = self.refused.get(name)
            if refusal is None:
                near = get_close_matches(name, [*type(self).model_fields, *known], n=1)
                meant = f"; did you mean {near[0]}?" if near else ""
                raise invalid(f"unknown field {short(name)}{meant}", short(name), "unknown_parameter")
            if value not in refusal.neutral:
                raise invalid(f"{name} is not supported: {refusal.why}", name, "unsupported_parameter")


class BodyPart(BaseModel):
    """An object within a body, whose fields are all declared."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())


class StreamOptions(BodyPart):
    """Options of a stream."""

    include_usage: bool = False
    include_obfuscation: bool = False


def checked(kind: type[M], given: object, where: str = "") -> M:
    """Return ``given`` as a value of ``kind``. Raises ApiError; ``where`` is the path of ``given``."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise wrong_field(error, where) from None


def wrong_field(error: ValidationError, where: str = "", *, field: str | None = None) -> ApiError:
    """Return the answer that names the first field that is wrong, or ``field`` where it is known."""
    first = error.errors(include_url=False, include_context=False)[0]
    param = field or path_of(first["loc"], where)
    return invalid(f"{param} {_fault(first)}", param)


def path_of(place: Sequence[int | str], where: str = "") -> str:
    """Return the name of a place in a body, as in ``messages[0].content``."""
    for one in place:
        where += f"[{one}]" if isinstance(one, int) else f".{short(one)}" if where else short(one)
    return where


def short(text: object) -> str:
    """Return a text of a client, printable and cut."""
    line = "".join(char if char.isprintable() else "\ufffd" for char in str(text))
    return line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}..."


def _fault(error: ErrorDetails) -> str:
    match error["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return "is not supported"
    must = error["msg"].removeprefix("Input should ").removeprefix("Value error, ")
    given = error["input"]
    shown = f", not {short(repr(given))}" if isinstance(given, str | int | float | bool) else ""
    return f"should {must}{shown}"
