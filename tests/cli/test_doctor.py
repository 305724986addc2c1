"""``edgedec doctor``: facts, the speeds of installed models, and problems."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from edgedec.core.errors import BackendError
from edgedec.costs.cost_file import CostFile
from edgedec.disk.installing import pip_install, pip_reinstall
from tests.cli.support import Home, ran, run
from tests.fixtures.simulated import COSTS, Machine, on_machine


class FakeKernels:
    def library_path(self) -> Path:
        return Path("/lib/kernels.so")

    def rows(self) -> list[str]:
        return ["amx", "avx2", "scalar"]

    def can_run(self, row: str) -> bool:
        return row != "amx"

    def faster(self) -> list[str]:
        return []

    def isa(self) -> str:
        return "avx2"


def test_doctor_reports_for_people_and_machines(home: Home) -> None:
    model = home.parrot()
    services = home.services(model, kernels=FakeKernels, bandwidth=lambda size, threads: 10.0 * threads)
    home.install(size=1_000_000)
    document = json.loads(run(services, "doctor", "--json").stdout)
    assert document["kernels"]["rows"] == [
        {"row": "amx", "can_run": False, "will_run": False},
        {"row": "avx2", "can_run": True, "will_run": True},
        {"row": "scalar", "can_run": True, "will_run": False},
    ]
    cores = document["machine"]["cores"]
    measured = {one["threads"]: one["gb_per_s"] for one in document["bandwidth"]}
    assert measured == {1: 10.0, cores: 10.0 * cores}
    (found,) = document["store"]["models"]
    speed = found.pop("speed")
    assert found == {"name": "smollm2-135m", "bytes": 1_000_000}
    assert speed["most_tokens_per_s"] == speed["plain_tokens_per_s"] > 0
    assert document["problems"] == []
    text = " ".join(run(services, "doctor").stdout.split())
    assert "amx (not on this CPU), avx2 (runs), scalar" in text
    known = document["versions"]["optimum-onnx"]
    assert (f"optimum {known}" if known else pip_install("optimum")) in text
    known = document["versions"]["llama-cpp-python"]
    assert (f"llama.cpp {known}" if known else pip_install("gguf")) in text
    assert re.search(r"smollm2-135m, 1.0 MB, about \d+ tok/s", text)


def test_the_speed_that_doctor_states_is_the_one_that_runs(home: Home) -> None:
    """Also where pass costs were kept under four times the load; with drafts it may be more."""
    home.install()
    machine = Machine()
    loaded = on_machine(home.parrot().loaded, machine)
    folder = home.path / "costs"
    file = CostFile.of(loaded, "fp16", folder)
    file.write(file.measured({tokens: 4.0 * seconds for tokens, seconds in COSTS["fp16"].measured().items()}))
    services = replace(
        home.services(), kernels=FakeKernels, bandwidth=lambda size, threads: 1.0,
        load=lambda bundle, **how: loaded, clock=machine.clock,
    )  # fmt: skip
    (found,) = json.loads(run(services, "doctor", "--json").stdout)["store"]["models"]
    assert found["speed"]["plain_tokens_per_s"] == pytest.approx(250.0, rel=0.01)
    assert found["speed"]["most_tokens_per_s"] == pytest.approx(16 / 0.014, rel=0.01)
    text = " ".join(run(services, "doctor").stdout.split())
    assert "about 250 tok/s, with drafts up to 1143" in text
    assert "at most" not in text


def test_a_model_that_does_not_run_is_a_problem_and_a_large_one_is_not_tried(home: Home) -> None:
    home.install()
    home.install("vast", size=10_000_000)

    def load(bundle: Path, /, **how: object) -> NoReturn:
        raise BackendError(f"{bundle.name} does not run")

    services = replace(home.services(), kernels=FakeKernels, bandwidth=lambda size, threads: 1.0, load=load)
    ran(services, "doctor", "--fast")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgedec.system.linux.meminfo_bytes", lambda text, key: 5_000_000)
        result = run(services, "doctor", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["problems"] == ["smollm2-135m: smollm2-135m does not run"]
    assert [model.get("speed", "no") for model in document["store"]["models"]] == ["no", None]


def test_a_library_that_was_compiled_for_another_processor_is_a_problem(home: Home) -> None:
    class Elsewhere(FakeKernels):
        def faster(self) -> list[str]:
            return ["avx512_vnni", "avx_vnni"]

    services = home.services(kernels=Elsewhere, bandwidth=lambda size, threads: 1.0)
    result = run(services, "doctor", "--fast", "--json")
    assert result.exit_code == 1
    (problem,) = json.loads(result.stdout)["problems"]
    assert problem == (
        "kernels: this processor can run avx512_vnni, for which this library was not compiled; avx2 runs. "
        f"To compile it for this one: {pip_reinstall()}"
    )
    assert problem in " ".join(run(services, "doctor", "--fast").stdout.split())


def test_fast_doctor_measures_nothing(home: Home) -> None:
    def never(size: int, threads: int) -> float:
        raise AssertionError("measured")

    result = ran(home.services(kernels=FakeKernels, bandwidth=never), "doctor", "--fast", "--json")
    assert json.loads(result.stdout)["bandwidth"] == []


def test_doctor_still_reports_when_a_part_fails(home: Home) -> None:
    def missing() -> FakeKernels:
        raise BackendError("the compiled kernel library is missing", hint="install again")

    services = home.services(kernels=missing, bandwidth=lambda size, threads: 0.0)
    result = run(services, "doctor", "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert document["kernels"] is None
    assert [problem.partition(":")[0] for problem in document["problems"]] == ["kernels", "bandwidth"]
    assert "the compiled kernel library is missing" in " ".join(run(services, "doctor").stdout.split())


def test_doctor_lists_gpus_with_what_they_compute(home: Home) -> None:
    real = {"name": "Adreno 750", "api": "Vulkan", "kind": "integrated", "driver": ""}
    asked = real | {"exact": True, "arithmetic": "exact: all operations the device's own"}
    soft = {"name": "llvmpipe", "api": "Vulkan", "kind": "software", "driver": "Mesa"}

    def gpus(ask: bool) -> dict[str, object]:
        return {"installed": True, "adapters": [asked if ask else real, soft]}

    services = home.services(
        home.parrot(), kernels=FakeKernels, bandwidth=lambda size, threads: 1.0, gpus=gpus
    )
    text = " ".join(run(services, "doctor").stdout.split())
    assert "GPU Adreno 750 (Vulkan, integrated): exact: all operations the device's own" in text
    assert "GPU llvmpipe (Vulkan, software adapter)" in text
    fast = json.loads(run(services, "doctor", "--fast", "--json").stdout)
    assert fast["gpus"] == {"installed": True, "adapters": [real, soft]}


def test_doctor_names_the_package_for_gpus_where_it_is_missing(home: Home) -> None:
    services = home.services(
        home.parrot(), kernels=FakeKernels, gpus=lambda ask: {"installed": False, "adapters": []}
    )
    assert pip_install("gpu") in " ".join(run(services, "doctor", "--fast").stdout.split())
