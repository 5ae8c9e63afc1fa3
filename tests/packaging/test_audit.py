"""An audit that could not be made is never told as one that found nothing."""

import json
import sys
from pathlib import Path

import pytest

from tests.packaging.audit_lock import NOT_AUDITED, PASSED, VULNERABLE, judge, main

SAFE = {"name": "polars", "version": "1.0", "vulns": []}
UNSAFE = {
    "name": "urllib3",
    "version": "2.2.0",
    "vulns": [{"id": "PYSEC-2024-1", "fix_versions": ["2.2.2"], "aliases": [], "description": ""}],
}
SKIPPED = {"name": "typer", "skip_reason": "Dependency not found on PyPI and could not be audited: typer"}


@pytest.mark.parametrize(
    ("packages", "code", "words"),
    [
        ([SAFE], PASSED, "No known vulnerabilities in 1 packages"),
        ([SAFE, UNSAFE], VULNERABLE, "urllib3 2.2.0: PYSEC-2024-1, fixed in 2.2.2"),
        ([UNSAFE, SKIPPED], VULNERABLE, "Not audited: 1 of 2 packages"),
        ([SAFE, SKIPPED], NOT_AUDITED, "not found on PyPI"),
        ([], NOT_AUDITED, "Not audited"),
    ],
)
def test_what_was_not_asked_about_is_not_passed(
    packages: list[dict[str, object]], code: int, words: str
) -> None:
    found, lines = judge(json.dumps({"dependencies": packages, "fixes": []}), "")
    assert (found, words in "\n".join(lines)) == (code, True)


def test_a_tool_that_fails_has_audited_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool = tmp_path / "pip-audit"
    tool.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('the service cannot be reached')\n")
    tool.chmod(0o755)
    assert main(str(tool)) == NOT_AUDITED
    assert "Its last line: the service cannot be reached" in capsys.readouterr().err
