"""The structs and callbacks of kernels/engine/edgedec.h; that file explains each field."""

from __future__ import annotations

from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import ClassVar

NOTICE = CFUNCTYPE(None, c_void_p, c_char_p)


class CStatus(Structure):
    _fields_: ClassVar = [("code", c_int32), ("message", c_char * 1024), ("hint", c_char * 1024)]


class COptions(Structure):
    _fields_: ClassVar = [
        ("size", c_uint32),
        ("threads", c_uint32),
        ("context", c_uint32),
        ("kv", c_int32),
        ("memory", c_uint64),
        ("draft", c_char_p),
        ("draft_tokens", c_uint32),
        ("verify", c_int32),
        ("runtime_path", c_char_p),
        ("runtime_api", c_void_p),
        ("cost_folder", c_char_p),
        ("tables_folder", c_char_p),
        ("notice", NOTICE),
        ("notice_user", c_void_p),
    ]


class CSampling(Structure):
    _fields_: ClassVar = [
        ("size", c_uint32),
        ("bias_count", c_uint32),
        ("seed", c_uint64),
        ("temperature", c_double),
        ("top_k", c_int64),
        ("top_p", c_double),
        ("min_p", c_double),
        ("top_n_sigma", c_double),
        ("typical", c_double),
        ("eta", c_double),
        ("top_h", c_double),
        ("edt", c_double),
        ("mirostat", c_double),
        ("mirostat_eta", c_double),
        ("repetition_penalty", c_double),
        ("frequency_penalty", c_double),
        ("presence_penalty", c_double),
        ("bias_tokens", POINTER(c_int32)),
        ("bias_values", POINTER(c_double)),
    ]


class CToken(Structure):
    _fields_: ClassVar = [
        ("id", c_int32),
        ("drafted", c_int32),
        ("text", c_void_p),
        ("text_size", c_size_t),
        ("drafter", c_char_p),
        ("seconds", c_double),
        ("thought", c_void_p),
        ("thought_size", c_size_t),
    ]


ON_TOKEN = CFUNCTYPE(c_int, c_void_p, POINTER(CToken))
class CCall(Structure):
    _fields_: ClassVar = [("id", c_char_p), ("name", c_char_p), ("arguments", c_char_p)]


ON_CALL = CFUNCTYPE(None, c_void_p, POINTER(CCall))
ON_PROMPT = CFUNCTYPE(c_int, c_void_p, c_size_t, c_size_t)


class CRequest(Structure):
    _fields_: ClassVar = [
        ("size", c_uint32),
        ("max_tokens", c_uint32),
        ("sampling", POINTER(CSampling)),
        ("stops", POINTER(c_char_p)),
        ("stop_count", c_size_t),
        ("on_token", ON_TOKEN),
        ("on_prompt", ON_PROMPT),
        ("user", c_void_p),
        ("schema", c_char_p),
        ("choices", POINTER(c_char_p)),
        ("choice_count", c_size_t),
        ("tools", c_char_p),
        ("on_call", ON_CALL),
        ("messages", c_char_p),
    ]


class CResult(Structure):
    _fields_: ClassVar = [
        ("size", c_uint32),
        ("finish", c_int32),
        ("prompt_tokens", c_uint32),
        ("reused_tokens", c_uint32),
        ("tokens", c_uint32),
        ("passes", c_uint32),
        ("drafted_tokens", c_uint32),
        ("accepted_tokens", c_uint32),
        ("dropped_messages", c_uint32),
        ("calls", c_uint32),
        ("first_token_s", c_double),
        ("decode_s", c_double),
    ]


class CMessage(Structure):
    _fields_: ClassVar = [("role", c_char_p), ("content", c_char_p)]
