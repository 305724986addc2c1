"""The native engine through its C API, for cases that the Python runtime answers too."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_size_t, c_void_p
from pathlib import Path
from typing import Any

from edgedec.kernels.library import library_path
from edgedec.native.sampling import struct_of
from edgedec.native.structs import ON_TOKEN, CMessage, COptions, CRequest, CResult, CStatus
from tests.native.cases import Case, Outcome

FINISH = {1: "stop", 2: "length", 3: "context", 4: "loop", 5: "interrupted"}


def runtime() -> bytes:
    """The path of the ONNX Runtime that its Python package brings."""
    import onnxruntime

    capi = Path(onnxruntime.__file__).parent / "capi"
    names = "libonnxruntime.*", "onnxruntime_pybind11_state*"  # without a library of its own the module is it
    return bytes(next(path for name in names for path in capi.glob(name)))


class NativeRuns:
    """The native engine with a bundle.

    ``costs``: a folder with pass costs; None: it measures them. ``memory``: the most bytes of the process.
    """

    def __init__(
        self,
        bundle: Path,
        draft: str = "off",
        context: int = 256,
        costs: Path | None = None,
        memory: int = 0,
    ) -> None:
        self._library = ctypes.CDLL(str(library_path()))
        self._library.edgedec_close.restype = None
        options, self._engine, status = COptions(), c_void_p(), CStatus()
        self._library.edgedec_options_init(byref(options))
        options.threads, options.context, options.draft = 1, context, draft.encode()
        options.memory = memory
        options.runtime_path = runtime()
        options.cost_folder = bytes(costs) if costs else None
        code = self._library.edgedec_open(bytes(bundle), byref(options), byref(self._engine), byref(status))
        assert code == 0, (code, status.message, status.hint)

    def close(self) -> None:
        self._library.edgedec_close(self._engine)

    def run(self, case: Case) -> Outcome:
        heard = _Heard(case.cancel)
        sampling, on_token = struct_of(case.params), ON_TOKEN(heard.token)
        stops = (c_char_p * len(case.stops))(*(one.encode() for one in case.stops))
        request, result, status = CRequest(), CResult(), CStatus()
        self._library.edgedec_request_init(byref(request))
        request.max_tokens, request.sampling = case.max_tokens or 0, ctypes.pointer(sampling)
        request.stops, request.stop_count, request.on_token = stops, len(case.stops), on_token
        request.schema = case.schema.encode() or None
        request.choices = (c_char_p * len(case.choices))(*(one.encode() for one in case.choices))
        request.choice_count = len(case.choices)
        result.size = ctypes.sizeof(CResult)
        code = self._call(case, byref(request), byref(result), byref(status))
        if code:
            return Outcome((code, status.message.decode(), status.hint.decode()))
        assert result.tokens == len(heard.tokens)
        text, finish = b"".join(heard.pieces).decode(), FINISH.get(result.finish, str(result.finish))
        prompt, reused = result.prompt_tokens, result.reused_tokens
        return Outcome(None, tuple(heard.tokens), text, finish, prompt, reused, heard.drafted)

    def _call(self, case: Case, *rest: Any) -> int:
        if case.text:
            text = case.text.encode()
            return int(self._library.edgedec_complete(self._engine, text, c_size_t(len(text)), *rest))
        messages = [CMessage(role.encode(), content.encode()) for role, content in case.roles()]
        handed = (CMessage * len(messages))(*messages)
        return int(self._library.edgedec_reply(self._engine, handed, c_size_t(len(messages)), *rest))


class _Heard:
    """The tokens of a reply, as its callback hears them."""

    def __init__(self, cancel: int | None) -> None:
        self._cancel = cancel
        self.tokens: list[int] = []
        self.pieces: list[bytes] = []
        self.drafted = 0

    def token(self, _: int | None, heard: Any) -> int:
        one = heard.contents
        piece = ctypes.string_at(one.text, one.text_size) if one.text_size else b""
        self.pieces.append(piece)
        if one.id >= 0:
            self.tokens.append(one.id)
            self.drafted += one.drafted != 0
        return int(bool(piece) and self._cancel is not None and len(self.tokens) >= self._cancel)
