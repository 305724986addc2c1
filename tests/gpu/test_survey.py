"""The list of GPUs for people: which of them are asked, and what is said of one that cannot be opened."""

from __future__ import annotations

import pytest

from edgedec.backends.gpu import survey as surveyed
from edgedec.backends.gpu.adapter import CHOICE, Adapter
from edgedec.backends.gpu.survey import survey
from edgedec.core.errors import BackendError
from tests.gpu.adapters import adapter


def test_a_software_adapter_is_asked_only_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    one = adapter()
    if not one.software:
        pytest.skip("the preferred adapter is a GPU")
    monkeypatch.setattr(surveyed, "adapters", lambda: [one])
    monkeypatch.delenv(CHOICE, raising=False)
    assert "exact" not in survey()["adapters"][0]
    monkeypatch.setenv(CHOICE, one.name.split()[0])
    assert survey()["adapters"][0]["exact"] is True
    assert "exact" not in survey(ask=False)["adapters"][0]


def test_an_adapter_that_cannot_be_opened_is_a_line_and_not_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(one: Adapter) -> None:
        raise BackendError(f"{one.name} cannot be opened: no driver")

    monkeypatch.setattr(surveyed, "installed", lambda: True)
    monkeypatch.setattr(surveyed, "adapters", lambda: [Adapter("Broken", "discrete", "Vulkan")])
    monkeypatch.setattr(surveyed.GpuDevice, "open", refuse)
    (found,) = survey()["adapters"]
    assert found["problem"] == "Broken cannot be opened: no driver"


def test_without_the_package_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveyed, "installed", lambda: False)
    assert survey() == {"installed": False, "adapters": []}
