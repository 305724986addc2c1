"""A hint for a user whose llama.cpp is broken. Imports nothing."""

from __future__ import annotations

REBUILD = (
    "GCC breaks its AMX code, so if it crashes, build it with"
    " CMAKE_ARGS=\"-DCMAKE_CXX_FLAGS='-fno-tree-dse -fno-dse'\""
    " pip install --force-reinstall --no-binary llama-cpp-python llama-cpp-python"
)
