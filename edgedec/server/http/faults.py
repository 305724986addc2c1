"""The form of an error: an answer for the client, and a cause for the log."""

from __future__ import annotations

import os
import traceback

from edgedec.server.http.exchange import Exchange
from edgedec.server.wire.errors import ApiError, api_error


def noted(error: Exception, exchange: Exchange) -> ApiError:
    """Return the answer to an error, and note its cause; EDGEDEC_DEBUG shows where it came from."""
    found = api_error(error)
    exchange.cause = exchange.cause or found.cause
    if found.cause and os.environ.get("EDGEDEC_DEBUG"):
        traceback.print_exception(error)
    return found
