"""``python -P -m edgedec.backends.llama_cpp.probe_worker FILE``: loads a GGUF file and runs a pass over it.

The last line on standard output is JSON: ``facts`` of the model, or the fault: ``missing`` (a module),
``old`` (the version, which lacks something), ``error``. A build that crashes prints nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

_TOKENS, _CELLS = 8, 256


def main() -> None:
    sys.stdout.write(f"\n{json.dumps(examine(Path(sys.argv[1])))}\n")


def examine(path: Path) -> dict[str, Any]:
    """The answer about one file."""
    try:
        from edgedec.backends.llama_cpp import binding
    except ImportError as error:
        return {"missing": str(error.name or error)}
    except (OSError, RuntimeError) as error:  # of a library that cannot be loaded
        return {"error": str(error)}
    from edgedec.core.errors import EdgeDecError

    if absent := binding.lacks():
        return {"old": binding.version(), "lacks": absent[0]}
    try:
        model = binding.LlamaModel(path)
        facts = model.facts()
        if facts["generates"]:
            runner = binding.LlamaCpp(model, threads=1, cells=_CELLS, batch=_TOKENS, sequences=1)
            tokens = [token % facts["vocab"] for token in range(_TOKENS)]
            runner.decode(tokens, range(_TOKENS), [[0]] * _TOKENS, [_TOKENS - 1])
    except EdgeDecError as error:
        return {"error": error.message}
    return {"facts": facts}


if __name__ == "__main__":
    main()
