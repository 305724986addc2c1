"""Renders the program of a chat template in the kernel library (``kernels/engine/text/chat_template.h``).

Importing Jinja and compiling a template would take longer than the first pass of a small model.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from edgedec.kernels import library

PROGRAM = "chat_template.program"
"""The file of a bundle with the program; ``template_program`` writes it."""


def render_program(
    program: bytes, texts: tuple[str, str, str], turns: Sequence[tuple[str, str]], generation_prompt: bool
) -> str | None:
    """Return the prompt of a conversation, given as pairs of role and content.

    ``texts``: the template, and the texts of its first and last token. None where the program is damaged or
    another template's, where it fails or refuses the messages, and for a construct that it does not know.
    Raises BackendError for a library of an older version.
    """
    try:
        given = [program, *(text.encode() for text in (*texts, *(text for turn in turns for text in turn)))]
    except UnicodeEncodeError:  # a lone surrogate
        return None
    kernels = library.load(library.library_path())
    try:
        render = kernels.edgedec_render_template
    except AttributeError:
        raise library.too_old() from None
    render.restype, size, count = ctypes.c_void_p, ctypes.c_size_t(), len(given)
    starts, sizes = (ctypes.c_char_p * count)(*given), (ctypes.c_size_t * count)(*map(len, given))
    made = render(starts, sizes, ctypes.c_size_t(count), int(generation_prompt), ctypes.byref(size))
    if not made:
        return None
    try:
        return ctypes.string_at(made, size.value).decode()
    finally:
        kernels.edgedec_free(ctypes.c_void_p(made))
