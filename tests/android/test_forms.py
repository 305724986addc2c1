"""Replies of a form on emulated phones: the tokens of Python on this machine, with and without drafts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.android.arm_engine import ArmRuns
from tests.android.test_cases import CPUS, same_answers
from tests.fixtures.tiny_models import tiny_bundle
from tests.kernels.arm import needs_arm
from tests.native.form_cases import form_cases

pytestmark = [needs_arm, pytest.mark.slow]


@pytest.fixture(scope="module", params=["llama", "gemma3", "lfm2"])
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp(request.param), request.param)


@pytest.mark.parametrize("draft", ["off", "lookup,recycling"])
@pytest.mark.parametrize("cpu", CPUS)
def test_replies_of_a_form_are_those_of_python(bundle: Path, cpu: str, draft: str) -> None:
    every = form_cases()
    with ArmRuns(bundle, cpu, draft, context=512) as phone:
        same_answers(bundle, phone, every, context=512)
        assert (phone.drafted > 20) == (draft != "off")
        whole = [one for one in map(phone.run, every) if one.finish == "stop"]
    assert len(whole) >= len(every) // 4, "nearly all replies were cut"
