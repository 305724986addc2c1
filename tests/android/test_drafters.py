"""Drafters with weights of their own on emulated phones: the answers of Python on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from edgedec.export.device import DeviceOrder, choose_drafters, write_device_folder
from edgedec.native.ready import make_ready
from tests.android.arm_engine import ArmRuns
from tests.android.test_cases import CPUS, requests, same_answers
from tests.drafters.test_experts_carried import TARGETS, made
from tests.fixtures.carried import PLACES, Place
from tests.fixtures.tiny_models import tiny_bundle
from tests.kernels.arm import needs_arm

CONTEXT = 256

pytestmark = [needs_arm, pytest.mark.slow]


@pytest.fixture(scope="module", params=[*PLACES, *(f"{kind} of experts" for kind in TARGETS)])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder, (kind, *experts) = tmp_path_factory.mktemp("place"), request.param.split(maxsplit=1)
    return made(folder, kind) if experts else PLACES[kind](folder)


@pytest.mark.parametrize("cpu", CPUS)
def test_what_a_folder_for_a_phone_carries_drafts(place: Place, cpu: str, tmp_path: Path) -> None:
    """A trained head, an MTP layer or an assistant, also of a model with experts."""
    chosen = choose_drafters((), place.bundle, place.home)
    write_device_folder(DeviceOrder("android", place.bundle, chosen, None, place.home), tmp_path / "phone")
    with ArmRuns(tmp_path / "phone", cpu, place.kind, context=CONTEXT) as phone:
        same_answers(place.bundle, phone, requests(place.bundle, 1, 16, 100), context=CONTEXT)
        assert phone.stats()["drafted_by"][place.kind]["queries"] > 0


@pytest.mark.parametrize("cpu", CPUS)
def test_a_small_model_drafts(cpu: str, tmp_path: Path) -> None:
    """The target's own copy."""
    bundle, small = tiny_bundle(tmp_path), tmp_path / "small"
    shutil.copytree(bundle, small)
    make_ready(small)
    with ArmRuns(bundle, cpu, str(small), context=CONTEXT) as phone:
        same_answers(bundle, phone, requests(bundle, 1, 16, 100), context=CONTEXT)
        assert phone.stats()["drafted_by"][str(small)]["queries"] > 0
