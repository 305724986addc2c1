"""Facts about an installed model, from its bundle; nothing is opened."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.bundle.manifest import CHAT_TEMPLATE, MANIFEST, TOKENIZER, Manifest
from edgedec.core.errors import EdgeDecError
from edgedec.core.quick_dataclass import dataclass
from edgedec.text.infill import names_infill
from edgedec.text.thinking import THINKING_TAGS

if TYPE_CHECKING:
    from edgedec.models import Installed

_TOOLS = re.compile(r"\btools\b")
_EFFORT = re.compile(r"\b(enable_thinking|reasoning_effort)\b")


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """An installed model; ``manifest`` is None for a bundle that cannot be read."""

    name: str
    bundle: Path
    bytes: int
    modified_s: float
    manifest: Manifest | None
    template: str
    parameters: int | None
    quant: str | None

    @property
    def can(self) -> list[str]:
        """Words for what the model can do, as Ollama has them."""
        found = ["completion"]
        if _TOOLS.search(self.template):
            found.append("tools")
        if _EFFORT.search(self.template) or any(end in self.template for _, end in THINKING_TAGS):
            found.append("thinking")
        if self._infills():
            found.append("insert")
        return found

    def _infills(self) -> bool:
        if self.manifest and self.manifest.tokenizer.infill:
            return True
        try:
            return names_infill((self.bundle / TOKENIZER).read_bytes())
        except OSError:
            return False


def facts_of(model: Installed) -> ModelFacts:
    """Return the facts about a model of the store."""
    from edgedec.models import CATALOGUE
    from edgedec.models.hub_choice import quant_of

    bundle = model.path
    try:
        manifest, modified = Manifest.load(bundle), (bundle / MANIFEST).stat().st_mtime
    except (EdgeDecError, OSError):
        return ModelFacts(model.name, bundle, model.bytes, 0.0, None, "", None, None)
    known = CATALOGUE.get(model.name)
    return ModelFacts(
        model.name,
        bundle,
        model.bytes,
        modified,
        manifest,
        _template(bundle),
        known.parameters if known else None,
        quant_of(str(manifest.source.get("file", ""))),
    )


def _template(bundle: Path) -> str:
    try:
        return (bundle / CHAT_TEMPLATE).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
