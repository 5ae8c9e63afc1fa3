"""A run of all tests imports each file when its turn comes, and misses no failure."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

FILES = {
    "conftest.py": """
import pytest
from pathlib import Path

def note(words):
    with Path("notes").open("a") as file:
        print(words, file=file)

@pytest.fixture(scope="session", autouse=True)
def whole():
    yield
    note("end of all")

@pytest.fixture(scope="module", autouse=True)
def file(request):
    yield
    note(f"end of {request.path.name}")
""",
    "test_a.py": "def test_passes(): pass\ndef test_fails(): assert 0",
    "test_b.py": "import absent",
    # What was imported before is no longer searched for garbage.
    "test_c.py": """
import gc
from pathlib import Path
assert Path('notes').exists()
assert gc.get_freeze_count()
def test_passes(): pass
""",
}


def test_a_file_is_imported_after_the_tests_of_the_one_before(tmp_path: Path) -> None:
    for name, code in FILES.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    command = [
        *(sys.executable, "-m", "pytest", "-p", "tests.files_in_turn", "--numprocesses", "auto"),
        *("--dist", "load", "--maxschedchunk", "1", "--import-mode=importlib", "--rootdir", str(tmp_path)),
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_XDIST_AUTO_NUM_WORKERS": "0"}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS"):
        environment.pop(name, None)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "FAILED test_a.py::test_fails" in done.stdout
    assert "ERROR test_b.py" in done.stdout
    assert "1 failed, 2 passed, 1 error" in done.stdout
    assert (tmp_path / "notes").read_text(encoding="utf-8").splitlines() == [
        "end of test_a.py",
        "end of test_c.py",
        "end of all",
    ]
