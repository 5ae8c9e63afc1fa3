"""One virtual environment for each peer, made of its pinned requirements."""

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
# None of the peers may report its use to its authors.
_QUIET = {"HAYSTACK_TELEMETRY_ENABLED": "False", "LANGSMITH_TRACING": "false", "DO_NOT_TRACK": "1"}


def make_environment(peer: str, folder: Path) -> Path:
    """Make the environment of a peer unless it is there and has the same requirements.

    Args:
        peer: One of :data:`PEERS`.
        folder: Where environments are kept; the peer's is a folder in it.

    Returns:
        The environment's Python.

    Raises:
        subprocess.CalledProcessError: ``venv`` or ``pip`` failed; what they said is on standard error.
    """
    requirements = REQUIREMENTS / peer / "requirements.txt"
    environment = folder.resolve() / peer
    python = environment / "bin" / "python"
    stamp = environment / _STAMP
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text(encoding="ascii") == wanted:
        return python
    # A stamp that is left while the folder is emptied would vouch for half an environment.
    stamp.unlink(missing_ok=True)
    print(f"making the environment of {peer} in {environment} ...", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([python, *install, "--requirement", requirements], check=True, stdout=sys.stderr)
    stamp.write_text(wanted, encoding="ascii")
    return python


def run_module(python: Path, module: str, *arguments: Path | str) -> None:
    """Run a module of this project in some environment and wait for it.

    Args:
        python: The environment's Python.
        module: The module's full name.
        arguments: Its arguments.

    Raises:
        subprocess.CalledProcessError: It failed; what it said is on standard error.
    """
    environment = {name: value for name, value in os.environ.items() if name not in PINNED_KERNELS}
    subprocess.run(
        [python, "-m", module, *arguments],
        cwd=ROOT,
        env=environment | _QUIET | {"PYTHONPATH": str(ROOT)},
        stdout=sys.stderr,
        check=True,
    )
