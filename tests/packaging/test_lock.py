"""The lock holds what ``make`` installs: the library, its light extras and the tools, each with its hashes."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
ENTRIES = re.split(r"^(?=[A-Za-z0-9])", LOCK, flags=re.MULTILINE)[1:]


def pins() -> dict[str, set[str]]:
    """Give the locked versions of each package; markers choose where there are several."""
    found: dict[str, set[str]] = {}
    for entry in ENTRIES:
        name, version = entry.split()[0].split("==")
        found.setdefault(canonicalize_name(name), set()).add(version)
    return found


def required() -> list[Requirement]:
    """Give the direct requirements of what is locked."""
    written = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (extras,) = re.findall(r"^EXTRAS := (.+)$", makefile, re.MULTILINE)
    groups = written["dependency-groups"]
    lines = list(written["project"]["dependencies"])
    lines += [line for line in groups["dev"] if isinstance(line, str)]
    for extra in extras.split():
        lines += written["project"]["optional-dependencies"][extra]
    return [Requirement(line) for line in lines]


def test_every_requirement_is_locked_in_a_version_that_it_takes() -> None:
    locked = pins()
    stale = [
        str(requirement)
        for requirement in required()
        if not set(requirement.specifier.filter(locked.get(canonicalize_name(requirement.name), ())))
    ]
    assert stale == [], "run `make lock`"


def test_every_pin_has_its_hashes() -> None:
    assert [entry.split()[0] for entry in ENTRIES if "--hash=sha256:" not in entry] == []


def test_no_file_that_is_installed_from_names_a_registry() -> None:
    for name in ("requirements.lock", "pyproject.toml", "Makefile"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(r"https?://|--index-url|--extra-index-url|--find-links|file:", text), name
