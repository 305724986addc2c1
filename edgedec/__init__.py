"""EdgeDec: exact, memory-bounded language-model decoding on small devices.

``open`` a model, then ``chat`` with it or ``complete`` texts. Names are imported at their first use.
"""

import os

# Recent builds of ONNX Runtime queue usage data under the user's home and send it to their maker. They read
# this once, when they are imported, which only modules below this one do.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# `typing` and `importlib` would keep the command from handling Ctrl-C for milliseconds (cli/main.py).
TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgedec.api import Model, open, open_encoder
    from edgedec.assemble.config import RunConfig
    from edgedec.core.errors import (
        BackendError,
        BadFileError,
        ContextFullError,
        DownloadError,
        EdgeDecError,
        GrammarError,
        MemoryBudgetError,
        NotFoundError,
        StorageError,
        TemplateError,
        UnsupportedError,
        UsageError,
    )
    from edgedec.core.tree import DraftTree
    from edgedec.core.version import __version__
    from edgedec.draft.drafter import Drafter
    from edgedec.drafters.registry import add_drafter
    from edgedec.embed.encoder import Encoder
    from edgedec.sampling.named import SamplingParams
    from edgedec.session.chat import Chat
    from edgedec.session.conversations import Conversations
    from edgedec.session.message import AboutText, Message, ToolCall
    from edgedec.session.reply import Reply
    from edgedec.text.infill import Infill

_HOMES = {
    "open": "edgedec.api",
    "open_encoder": "edgedec.api",
    "Model": "edgedec.api",
    "Chat": "edgedec.session.chat",
    "AboutText": "edgedec.session.message",
    "Message": "edgedec.session.message",
    "ToolCall": "edgedec.session.message",
    "Conversations": "edgedec.session.conversations",
    "Reply": "edgedec.session.reply",
    "RunConfig": "edgedec.assemble.config",
    "Drafter": "edgedec.draft.drafter",
    "DraftTree": "edgedec.core.tree",
    "Encoder": "edgedec.embed.encoder",
    "Infill": "edgedec.text.infill",
    "add_drafter": "edgedec.drafters.registry",
    "SamplingParams": "edgedec.sampling.named",
    "__version__": "edgedec.core.version",
}
"""The modules of the names below; those that are not here are errors."""
_BESIDE = ("edgedec.models", "edgedec.export", "edgedec.kernels", "edgedec.cli")
"""Parts that lie beside this folder in a clone, and that an install puts into it."""
_IN_A_CLONE = (
    "this is the edgedec folder of a clone, not the installed package: start Python in another folder, or"
    " install the clone with `pip install -e .`"
)
__all__ = [
    "AboutText",
    "BackendError",
    "BadFileError",
    "Chat",
    "ContextFullError",
    "Conversations",
    "DownloadError",
    "DraftTree",
    "Drafter",
    "EdgeDecError",
    "Encoder",
    "GrammarError",
    "Infill",
    "MemoryBudgetError",
    "Message",
    "Model",
    "NotFoundError",
    "Reply",
    "RunConfig",
    "SamplingParams",
    "StorageError",
    "TemplateError",
    "ToolCall",
    "UnsupportedError",
    "UsageError",
    "__version__",
    "add_drafter",
    "open",
    "open_encoder",
]


def __dir__() -> list[str]:
    """List the names above for ``help`` and Tab, before they are imported."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'edgedec' has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(_HOMES.get(name, "edgedec.core.errors")), name)
    except ModuleNotFoundError as error:
        if error.name not in _BESIDE:
            raise
        raise ImportError(_IN_A_CLONE, name="edgedec") from error
