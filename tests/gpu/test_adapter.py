"""The list of adapters and the choice of one."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from edgedec.backends.gpu import adapter
from edgedec.backends.gpu.adapter import CHOICE, Adapter, adapters, choose
from edgedec.core.errors import BackendError, UnsupportedError, UsageError
from edgedec.disk.installing import pip_install


def info(device: str, kind: str, api: str = "Vulkan") -> Any:
    facts = {"device": device, "vendor": "v", "adapter_type": kind, "backend_type": api, "description": "d"}
    return SimpleNamespace(info=facts, limits={"max-buffer-size": 7}, features={"timestamp-query"})


def listed(*handles: Any) -> list[Adapter]:
    return adapters(SimpleNamespace(enumerate_adapters_sync=lambda: list(handles)))


SOFTWARE = info("llvmpipe (LLVM 15)", "CPU")
SMALL = info("Small GPU", "IntegratedGPU")
BIG = info("Big GPU", "DiscreteGPU")
BIG_GL = info("Big GPU", "DiscreteGPU", "OpenGL")


def test_one_compiler_is_spared_fused_kernels() -> None:
    (slow,) = listed(info("SwiftShader Device (Subzero)", "CPU"))
    assert not slow.fuses
    assert all(one.fuses for one in listed(SOFTWARE, SMALL, BIG))


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHOICE, raising=False)


def test_the_fastest_kind_comes_first_by_the_api_made_for_it() -> None:
    found = listed(SOFTWARE, BIG_GL, SMALL, BIG)
    assert [(one.name, one.api) for one in found] == [
        ("Big GPU", "Vulkan"),
        ("Big GPU", "OpenGL"),
        ("Small GPU", "Vulkan"),
        ("llvmpipe (LLVM 15)", "Vulkan"),
    ]
    assert choose(found).kind == "discrete"
    assert found[0].limits == {"max-buffer-size": 7}
    assert found[-1].title == "llvmpipe (LLVM 15) (Vulkan, software adapter)"


def test_a_part_of_the_name_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "small")
    assert choose(listed(BIG, SMALL)).name == "Small GPU"
    monkeypatch.setenv(CHOICE, "other")
    with pytest.raises(UsageError, match=r"names no GPU: 'other'.*Big GPU, Small GPU"):
        choose(listed(BIG, SMALL))


def test_a_software_adapter_runs_only_when_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedError, match=r"no GPU was found.*EDGEDEC_GPU=llvmpipe"):
        choose(listed(SOFTWARE))
    monkeypatch.setenv(CHOICE, "llvm")
    assert choose(listed(SOFTWARE)).software


def test_no_adapter_at_all_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedError, match="no GPU was found"):
        choose([])
    monkeypatch.setenv(CHOICE, "x")
    with pytest.raises(UsageError, match="there is none"):
        choose([])


def test_a_driver_that_fails_is_one_line() -> None:
    def broken() -> list[Any]:
        raise RuntimeError("no\nloader")

    with pytest.raises(BackendError, match="cannot list the GPUs: no loader"):
        adapters(SimpleNamespace(enumerate_adapters_sync=broken))


def test_a_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wgpu", None)
    # The answer of an earlier call is kept.
    monkeypatch.setattr(adapter, "_entry", adapter._entry.__wrapped__)
    with pytest.raises(UnsupportedError, match=re.escape(pip_install("gpu"))):
        adapters()
