"""Install the wheels in dist/ where there is no compiler, and chat: `python .ci/check_wheels.py`.

The wheel of this machine goes into a new virtual environment; PATH has nothing else. On x86-64 the wheel for
Arm then runs in qemu, under Debian's Python for Arm, and has to give the same tokens. That needs Debian's
`qemu-user-static` and `apt-get`, but no rights: packages are unpacked, not installed. It downloads 0.3 GB.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "wheels"
ARM = WORK / "arm"
MODEL = "smollm2-135m"
QUESTION = "Why is the sky blue?"
GREEDY = ("-m", MODEL, "-p", QUESTION, "--temperature", "0", "--max-tokens", "8", "--draft", "off", "--json")
NO_COMPILER = {"CC": "/bin/false", "CXX": "/bin/false"}
OLDEST_GLIBC, NEWEST_GLIBC = 17, 31  # 2.17 is manylinux2014; 2.31 what llguidance's wheel for Arm needs

APT = """APT::Architecture "arm64";
APT::Architectures {{ "arm64"; }};
APT::Sandbox::User "";
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Acquire::Languages "none";
"""
# ONNX Runtime asks the system for its processors as it loads; without answers for Arm it ends the process.
CPU_INFO = "processor\t: 0\nFeatures\t: fp asimd asimddp i8mm\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\n"
STAND_INS = {
    "proc/cpuinfo": CPU_INFO,
    **{f"sys/devices/system/cpu/{name}": "0\n" for name in ("possible", "present", "online")},
}


def run(*command: str | Path, env: Mapping[str, str] | None = None, stdin: str = "") -> str:
    """Run a command that has to succeed, outside the checkout, and return what it prints."""
    parts = [str(part) for part in command]
    done = subprocess.run(
        parts, cwd=WORK, env=env, input=stdin, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(parts)}\n{done.stdout}exit status {done.returncode}")
    return done.stdout


def wheel(architecture: str) -> Path:
    found = sorted((ROOT / "dist").glob(f"edgedec_runtime-*-manylinux_*_{architecture}.whl"))
    if not found:
        sys.exit(f"no wheel for {architecture} in dist/: run `python .ci/wheels.py`")
    return found[-1]


def first_output_s(*command: str | Path, env: Mapping[str, str], stdin: str) -> tuple[float, str]:
    """Seconds until a command prints something, and all that it prints."""
    begin = time.perf_counter()
    parts = [str(part) for part in command]
    with subprocess.Popen(parts, cwd=WORK, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(stdin.encode())
        child.stdin.close()
        first = child.stdout.read(1)
        seconds = time.perf_counter() - begin
        text = (first + child.stdout.read()).decode()
    if child.returncode or not text.strip():
        sys.exit(f"{' '.join(parts)}: exit status {child.returncode}, printed {text!r}")
    return seconds, text


def chat_here(folder: Path) -> list[int]:
    """Install and chat in a new environment; return the tokens of a greedy reply."""
    venv.create(folder / "venv", with_pip=True)
    bin = folder / "venv" / "bin"
    env = os.environ | NO_COMPILER | {"PATH": str(bin), "EDGEDEC_HOME": str(folder / "store")}
    begin = time.perf_counter()
    run(bin / "pip", "install", "--quiet", "--disable-pip-version-check", wheel(platform.machine()), env=env)
    print(f"pip install without a compiler: {time.perf_counter() - begin:.1f} s", flush=True)
    print(run(bin / "python", ROOT / ".ci" / "rows.py", env=env), end="")
    pulled = time.perf_counter()
    run(bin / "edgedec", "pull", MODEL, env=env)
    print(f"edgedec pull {MODEL}: {time.perf_counter() - pulled:.1f} s", flush=True)
    chat = (bin / "edgedec", "chat", "-m", MODEL, "--max-tokens", "40")
    seconds, text = first_output_s(*chat, env=env, stdin=f"{QUESTION}\n")
    print(f"edgedec chat: first output after {seconds:.1f} s\n  {QUESTION}\n  {text.strip()}", flush=True)
    print(f"from `pip install` to the end of the reply: {time.perf_counter() - begin:.1f} s", flush=True)
    return list(json.loads(run(bin / "edgedec", "generate", *GREEDY, env=env))["tokens"])


def arm_root() -> Path:
    """Unpack Debian's Python for 64-bit Arm, once; return the folder that stands for ``/``."""
    root = ARM / "root"
    if (ARM / "complete").exists():
        return root
    for name in ("state/lists/partial", "cache/archives/partial", "root"):
        (ARM / name).mkdir(parents=True, exist_ok=True)
    (ARM / "status").touch()
    (ARM / "apt.conf").write_text(APT.format(folder=ARM), encoding="utf-8")
    env = os.environ | {"APT_CONFIG": str(ARM / "apt.conf")}
    run("apt-get", "-qq", "update", env=env)
    packages = ("python3-minimal", "python3", "libstdc++6", "ca-certificates")
    run("apt-get", "-qq", "-y", "--no-install-recommends", "--download-only", "install", *packages, env=env)
    for package in (ARM / "cache" / "archives").glob("*.deb"):
        run("dpkg-deb", "-x", package, root)
    for name, text in STAND_INS.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    (ARM / "complete").touch()
    return root


def install_for_arm(python: Path, version: str) -> Path:
    """Install the Arm wheel and what it needs, as wheels; return their folder."""
    site = ARM / "site"
    shutil.rmtree(site, ignore_errors=True)
    glibcs = range(OLDEST_GLIBC, NEWEST_GLIBC + 1)
    platforms = ["manylinux2014_aarch64", *(f"manylinux_2_{minor}_aarch64" for minor in glibcs)]
    run(
        *(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", site),
        *("--only-binary=:all:", "--implementation", "cp", "--python-version", version),
        *(word for name in platforms for word in ("--platform", name)),
        wheel("aarch64"),
    )
    return site


def chat_in_qemu(folder: Path) -> list[int]:
    """Install the Arm wheel beside an Arm Python; return the tokens of the same greedy reply in qemu."""
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if emulator is None:
        sys.exit("the wheel for Arm needs qemu to run here (Debian: qemu-user-static)")
    root = arm_root()
    (python,) = (path for path in (root / "usr" / "bin").glob("python3.*") if path.name[8:].isdigit())
    site = install_for_arm(folder / "venv" / "bin" / "python", python.name.removeprefix("python"))
    env = os.environ | {"PYTHONPATH": str(site), "EDGEDEC_HOME": str(folder / "store")}
    arm = (emulator, "-cpu", "max", "-L", root, python)
    print(run(*arm, ROOT / ".ci" / "rows.py", env=env), end="", flush=True)
    begin = time.perf_counter()
    reply = json.loads(run(*arm, "-m", "edgedec.cli.main", "generate", *GREEDY, env=env))
    print(f"aarch64 in qemu, {time.perf_counter() - begin:.0f} s: {reply['text']!r}")
    return list(reply["tokens"])


def main() -> None:
    WORK.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="edgedec-wheel-") as name:
        here = chat_here(Path(name))
        if platform.machine() == "aarch64":
            return
        there = chat_in_qemu(Path(name))
    if here != there:
        sys.exit(f"tokens differ: {here} here, {there} on Arm")
    print(f"the same tokens on both: {here}")


if __name__ == "__main__":
    main()
