"""An environment that holds the wheel, what it requires, and nothing else; made without a network.

The requirements are linked, file by file, from the environment that runs the tests: exactly those distributions that
the wheel's metadata names, and what these require in turn. So an import of a package that is not required fails, and
the checkout is not on the path.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Installation:
    """An environment with the wheel.

    Attributes:
        bin: Folder of its commands.
        working_folder: An empty folder, in which commands start.
        cache: Folder of built models.
    """

    bin: Path
    working_folder: Path
    cache: Path

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment, which inherits no variable but these."""
        home = {"HOME": str(self.working_folder), "BACKSTORY_CACHE_DIR": str(self.cache)}
        return subprocess.run(
            [str(self.bin / command), *arguments],
            cwd=self.working_folder,
            env={"PATH": f"{self.bin}:/usr/bin:/bin", "COLUMNS": "200", **home},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


def build_wheel(folder: Path) -> Path:
    """Build the wheel from the checkout with the build backend that is installed."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path, extras: Sequence[str], cache: Path) -> Installation:
    """Make an environment with the wheel, the requirements of its extras, and no pip.

    Args:
        wheel: The wheel.
        folder: Where to make the environment.
        extras: Names of the wanted extras.
        cache: Folder of built models.

    Returns:
        The environment.
    """
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = environment / "lib" / version / "site-packages"
    (metadata,) = packages.glob("backstory-*.dist-info")
    for required in _required_by(PathDistribution(metadata), extras):
        _link(required, packages)
    working_folder = folder / "elsewhere"
    working_folder.mkdir()
    return Installation(environment / "bin", working_folder, cache)


def _required_by(root: Distribution, extras: Sequence[str]) -> Iterator[Distribution]:
    """Give the installed distributions that one requires, directly or not, each once."""
    waiting = [(root, extra) for extra in ("", *extras)]
    seen: set[tuple[str, str]] = set()
    given: set[str] = set()
    while waiting:
        current, wanted = waiting.pop()
        for line in current.requires or ():
            requirement = Requirement(line)
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": wanted}):
                continue
            found = distribution(requirement.name)
            for extra in ("", *requirement.extras):
                if (found.name, extra) not in seen:
                    seen.add((found.name, extra))
                    waiting.append((found, extra))
            if found.name not in given:
                given.add(found.name)
                yield found


def _link(package: Distribution, packages: Path) -> None:
    """Link every file of a distribution, not its folders, since several distributions may share one."""
    for file in package.files or ():
        if ".." in file.parts:  # a command
            continue
        target = packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(Path(str(file.locate())))
