"""The battery, and the time that the machine slept, as Windows tells them."""

from __future__ import annotations

import ctypes

_BATTERY = 5
"""SystemBatteryState of ``CallNtPowerInformation`` (winnt.h)."""


class _State(ctypes.Structure):
    """SYSTEM_BATTERY_STATE."""

    _fields_ = (
        ("on_charger", ctypes.c_uint8),
        ("present", ctypes.c_uint8),
        ("charging", ctypes.c_uint8),
        ("discharging", ctypes.c_uint8),
        ("spare", ctypes.c_uint8 * 4),
        ("most_mwh", ctypes.c_uint32),
        ("left_mwh", ctypes.c_uint32),
        ("rate_mw", ctypes.c_int32),
        ("left_s", ctypes.c_uint32),
        ("alerts", ctypes.c_uint32 * 2),
    )


def battery_state() -> tuple[bool, int, int] | None:
    """Return whether the batteries give power, the mWh left in them, and the mW; None without one."""
    state = _State()
    call = ctypes.CDLL("powrprof").CallNtPowerInformation
    failed = call(_BATTERY, None, 0, ctypes.byref(state), ctypes.c_uint32(ctypes.sizeof(state)))
    if failed or not state.present:
        return None
    return bool(state.discharging), int(state.left_mwh), abs(int(state.rate_mw))


def asleep_s() -> float:
    """Return the seconds that the machine has been suspended since it started."""
    calls, awake = ctypes.CDLL("kernel32"), ctypes.c_uint64()
    calls.GetTickCount64.restype = ctypes.c_uint64
    calls.QueryUnbiasedInterruptTime(ctypes.byref(awake))
    return max(float(calls.GetTickCount64()) / 1e3 - awake.value / 1e7, 0.0)
