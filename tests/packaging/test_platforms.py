"""Where the package runs is said alike by its metadata, the Makefile and the library itself."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]


def test_the_makefile_takes_the_pythons_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    taken = SpecifierSet(project["requires-python"])
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (bounds,) = re.findall(r"\((\d+), (\d+)\) <= sys\.version_info < \((\d+), (\d+)\)", makefile)
    first, end = f"{bounds[0]}.{bounds[1]}", f"{bounds[2]}.{bounds[3]}"
    assert str(taken) == str(SpecifierSet(f">={first},<{end}"))


def test_windows_is_refused_in_one_sentence() -> None:
    code = "import sys; sys.platform = 'win32'; import backstory"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "ImportError: Backstory runs on Linux and macOS, not on Windows" in result.stderr.splitlines()[-1]
