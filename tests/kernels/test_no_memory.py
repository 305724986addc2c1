"""A kernel without memory for its scratch says so, though the library has no exceptions."""

from __future__ import annotations

import re
import subprocess
import sys

from edgedec.kernels.library import library_path

SETUP = """
import ctypes, resource
import numpy as np
library = ctypes.CDLL({library!r})
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
def limit(mb):
    resource.setrlimit(resource.RLIMIT_AS, (used + mb * 2**20, resource.RLIM_INFINITY))
def at(array):
    return ctypes.c_void_p(array.ctypes.data)
"""
LINEAR = """
rows, columns, tokens = 16, 32, 1 << 18
x, out = np.zeros((tokens, columns), np.float32), np.zeros((tokens, rows), np.float32)
weight = np.zeros(4096, np.uint8)
limit(100)
def linear(format):
    return library.edgedec_quant_linear(
        b"scalar", format, at(weight), rows, columns, at(x), tokens, 1, None, None, at(out))
print(linear(b"f32"), linear(b"q4_0"), linear(b"f32"), linear(b"q4_0"))
"""
ATTENTION = """
class Config(ctypes.Structure):
    _fields_ = [("heads", ctypes.c_size_t), ("kv_heads", ctypes.c_size_t), ("dim", ctypes.c_size_t),
                ("scale", ctypes.c_float), ("window", ctypes.c_size_t), ("interleaved", ctypes.c_bool),
                ("epsilon", ctypes.c_float), ("softcap", ctypes.c_float), ("ring", ctypes.c_bool)]
config = Config(heads=24, kv_heads=1, dim=16, scale=1.0)
length = 1 << 21
qkv, rotary = np.zeros((1, 26 * 16), np.float32), np.zeros((1, 16), np.float32)
parents, out = np.array([-1], np.int64), np.zeros((1, 24 * 16), np.float32)
cache = np.zeros((2, length + 1, 16), np.uint16)
size = ctypes.c_size_t
split = (size * 3)(1, 0, 0)
limit(300)
def attend(resident):
    return library.edgedec_tree_attention(
        b"scalar", ctypes.byref(config), at(qkv), at(rotary), at(parents), size(1), size(resident), at(cache),
        size(length + 1), size(16), None, None, None, at(out), split, None)
print(attend(length), attend(100))
"""


def results(program: str) -> list[str]:
    code = SETUP.format(library=str(library_path())) + program
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return re.findall(r"\d+", done.stdout)


def test_activations_without_memory_are_an_error_and_not_a_crash() -> None:
    assert results(LINEAR) == ["0", "3", "0", "3"]


def test_a_task_without_memory_is_an_error_and_later_calls_work() -> None:
    assert results(ATTENTION) == ["3", "0"]
