"""Loads pages in a real browser that reaches no network."""

import shutil
import subprocess
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def load_page(page: Path, profile: Path) -> tuple[str, list[str]]:
    """Load a page from a file, and give its DOM and the messages of its console; skip where no browser is installed."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip(f"no browser ({', '.join(BROWSERS)}); apt-get install chromium")
    result = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr",
            f"--user-data-dir={profile}", "--dump-dom", page.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )  # fmt: skip
    return result.stdout, [line for line in result.stderr.splitlines() if ":CONSOLE" in line]
