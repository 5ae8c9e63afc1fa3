"""One virtual environment per peer, with its pinned requirements."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.machine import PINNED_KERNELS

ROOT = Path(__file__).parents[2]
PEERS = ("llamaindex", "haystack", "langchain")
REQUIREMENTS = Path(__file__).parent

_STAMP = "requirements.sha256"
# Turns off the telemetry of the peers.
_QUIET = {"HAYSTACK_TELEMETRY_ENABLED": "False", "LANGSMITH_TRACING": "false", "DO_NOT_TRACK": "1"}


def make_environment(peer: str, folder: Path) -> Path:
    """Make the environment of a peer unless it exists with the same requirements.

    Args:
        peer: One of :data:`PEERS`.
        folder: Parent folder of all environments.

    Returns:
        The environment's Python interpreter.

    Raises:
        subprocess.CalledProcessError: ``venv`` or ``pip`` failed; their output is on standard error.
    """
    requirements = REQUIREMENTS / peer / "requirements.txt"
    environment = folder.resolve() / peer
    python = environment / "bin" / "python"
    stamp = environment / _STAMP
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text(encoding="ascii") == wanted:
        return python
    # The stamp goes first: if the process is killed below, it must not mark half an environment as complete.
    stamp.unlink(missing_ok=True)
    print(f"making the environment of {peer} in {environment} ...", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([python, *install, "--requirement", requirements], check=True, stdout=sys.stderr)
    stamp.write_text(wanted, encoding="ascii")
    return python


def run_module(python: Path, module: str, *arguments: Path | str) -> None:
    """Run a module of this project in an environment and wait for it.

    Args:
        python: The environment's Python interpreter.
        module: The module's full name.
        arguments: Command-line arguments of the module.

    Raises:
        subprocess.CalledProcessError: The module failed; its output is on standard error.
    """
    environment = {name: value for name, value in os.environ.items() if name not in PINNED_KERNELS}
    subprocess.run(
        [python, "-m", module, *arguments],
        cwd=ROOT,
        env=environment | _QUIET | {"PYTHONPATH": str(ROOT)},
        stdout=sys.stderr,
        check=True,
    )
