"""Fail unless the installed EdgeDec has every kernel row of this architecture: `python .ci/rows.py`.

Not from the root of a checkout, whose sources Python would find first.
"""

from __future__ import annotations

import platform
import sys

from edgedec.kernels import library

X86 = ["amx", "avx512_vnni", "avx_vnni", "avx2", "scalar"]
ARM = ["neon_i8mm", "neon_dotprod", "scalar"]
ROWS = {"x86_64": X86, "AMD64": X86, "aarch64": ARM, "arm64": ARM}


def main() -> None:
    machine = platform.machine()
    expected, found = ROWS[machine], library.rows()
    if found != expected:
        sys.exit(f"rows of {machine}: {', '.join(found)}; expected {', '.join(expected)}")
    print(f"rows of {machine}: {', '.join(found)}; here {library.isa()} runs")


if __name__ == "__main__":
    main()
