"""Running Python with kernels that report misuse of memory and undefined behaviour.

Built as anyone can: ``cmake -S . -B build/sanitized -DEDGEDEC_SANITIZE=address,undefined``;
``EDGEDEC_KERNELS`` names the library to use. Python is not instrumented, so the sanitizers' runtimes have to
be loaded before it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

STATUS = 86
"""With which a process ends after a report."""


def environment(library: Path) -> dict[str, str]:
    """Variables for a Python that is to use ``library``. Raises CalledProcessError without a compiler."""
    compiler = os.environ.get("CXX", "c++")
    runtimes = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    return {
        **os.environ,
        "EDGEDEC_KERNELS": str(library.resolve()),
        "LD_PRELOAD": " ".join(str(Path(runtime).resolve()) for runtime in runtimes),
        # Python keeps memory to its end, and the allocator of the runtime knows nothing of NumPy's.
        "ASAN_OPTIONS": f"detect_leaks=0:abort_on_error=0:exitcode={STATUS}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:halt_on_error=1:exitcode={STATUS}",
        "PYTHONMALLOC": "malloc",  # so that memory of Python objects has edges that are watched too
    }
