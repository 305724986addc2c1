"""The body of a call that the page asks for."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from edgedec.server.wire.body import RequestBody

_MOST_NAME = 200


class ToolCallBody(RequestBody):
    """The body of ``POST /edgedec/tools/call``.

    ``confirmed``: the person at the page was shown this call, and said yes.
    """

    name: str = Field(max_length=_MOST_NAME)
    arguments: dict[str, Any]
    confirmed: bool = False
