"""Asks for known vulnerabilities of everything that requirements.lock names: ``make audit``.

pip-audit answers "No known vulnerabilities found" with exit code 0 even if its advisory service knew none of the
packages, for example behind a mirror that serves files only. So what it could not ask about is counted here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

PASSED: Final = 0
VULNERABLE: Final = 1
NOT_AUDITED: Final = 3

_LOCK: Final = Path(__file__).resolve().parents[2] / "requirements.lock"


def judge(output: str, errors: str) -> tuple[int, list[str]]:
    """Judge an answer of pip-audit.

    Args:
        output: What it printed in the format ``json``; empty if it failed.
        errors: What it printed to stderr.

    Returns:
        The exit code, and the lines to print.
    """
    try:
        answer = json.loads(output)
    except ValueError:
        said = errors.strip().splitlines() or ["pip-audit said nothing"]
        return NOT_AUDITED, [f"Not audited: pip-audit failed. Its last line: {said[-1]}"]
    packages: list[dict[str, Any]] = answer["dependencies"]
    lines = [
        f"{package['name']} {package['version']}: {found['id']}, fixed in {', '.join(found['fix_versions']) or '?'}"
        for package in packages
        for found in package.get("vulns", [])
    ]
    skipped = [package for package in packages if "skip_reason" in package]
    if skipped or not packages:
        reason = f", for example: {skipped[0]['skip_reason']}" if skipped else ""
        lines.append(
            f"Not audited: {len(skipped)} of {len(packages)} packages{reason}. Whether they have known "
            "vulnerabilities is not known; run `make audit` where the advisory service can be reached"
        )
    if any(package.get("vulns") for package in packages):
        return VULNERABLE, lines
    if lines:
        return NOT_AUDITED, lines
    return PASSED, [f"No known vulnerabilities in {len(packages)} packages of {_LOCK.name}"]


def main(pip_audit: str) -> int:
    """Run pip-audit on the lock, and print what it found; its variables (``PIP_AUDIT_OSV_URL``) are honoured."""
    # The lock is complete and has hashes, so pip need not resolve it.
    options = ["--disable-pip", "--format", "json", "--progress-spinner", "off", "--requirement", str(_LOCK)]
    done = subprocess.run([pip_audit, *options], capture_output=True, text=True, check=False)
    code, lines = judge(done.stdout, done.stderr)
    print("\n".join(lines), file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
