"""Building kernels that report misuse of memory, undefined behaviour and races; running Python with them.

Built as anyone can: ``cmake -S . -B build/sanitized -DEDGEDEC_SANITIZE=address,undefined``;
``EDGEDEC_KERNELS`` names the library to use. Python is not instrumented, so the sanitizers' runtimes have to
be loaded before it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.conftest import ROOT

STATUS = 86
"""With which a process ends after a report."""
RACES = f"exitcode={STATUS}:suppressions={ROOT / 'tests' / 'kernels' / 'race_suppressions.txt'}"
"""Options of ThreadSanitizer."""


def build(name: str, sanitizers: str, *options: str) -> Path:
    """Build the library with sanitizers; its path.

    It is kept in ``build``: compiling it takes longer than all that is done with it.
    """
    folder = ROOT / "build" / name
    configure = ["cmake", "-S", str(ROOT), "-B", str(folder), "-DCMAKE_BUILD_TYPE=None"]
    for step in (
        [*configure, f"-DEDGEDEC_SANITIZE={sanitizers}", *options],
        ["cmake", "--build", str(folder)],
    ):
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder / "kernels" / "libedgedec_kernels.so"


def program(name: str, folder: Path, sanitizers: str, *sources: str) -> Path:
    """Compile a program of these tests, sources of kernels and the system's into a folder; its path."""
    compiler, kernels = str(shutil.which(os.environ.get("CXX", "c++"))), ROOT / "kernels"
    system = [*kernels.glob("common/os/posix*.cc"), *kernels.glob("common/os/linux*.cc")]
    files = [ROOT / "tests" / "kernels" / f"{name}.cc", *(kernels / one for one in sources), *system]
    flags = ("-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-fsanitize={sanitizers}", "-pthread")
    subprocess.run([compiler, *flags, "-I", kernels, *files, "-ldl", "-o", folder / "host"], check=True)
    return folder / "host"


def watched(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run such a program; it ends with ``STATUS`` after a report."""
    options = {f"{name}_OPTIONS": f"exitcode={STATUS}:halt_on_error=1" for name in ("TSAN", "ASAN", "UBSAN")}
    return subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **options},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def environment(library: Path) -> dict[str, str]:
    """Variables for a Python that is to use ``library``. Raises CalledProcessError without a compiler."""
    return {
        **_preloaded(library, "libasan.so", "libubsan.so"),
        # Python keeps memory to its end, and the allocator of the runtime knows nothing of NumPy's.
        "ASAN_OPTIONS": f"detect_leaks=0:abort_on_error=0:exitcode={STATUS}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:halt_on_error=1:exitcode={STATUS}",
    }


def racing_environment(library: Path) -> dict[str, str]:
    """Variables for a Python that is to use a ``library`` with ThreadSanitizer. Raises CalledProcessError."""
    # Locks and memory of other libraries are not seen whole, so they are not judged.
    others = "ignore_noninstrumented_modules=1:report_mutex_bugs=0"
    return {**_preloaded(library, "libtsan.so"), "TSAN_OPTIONS": f"{RACES}:{others}"}


def _preloaded(library: Path, *runtimes: str) -> dict[str, str]:
    compiler = os.environ.get("CXX", "c++")
    paths = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in runtimes
    ]
    return {
        **os.environ,
        "EDGEDEC_KERNELS": str(library.resolve()),
        "LD_PRELOAD": " ".join(str(Path(path).resolve()) for path in paths),
        "PYTHONMALLOC": "malloc",  # so that memory of Python objects has edges that are watched too
    }
