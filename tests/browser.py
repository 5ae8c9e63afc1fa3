"""Loads pages in a real browser that reaches no network."""

import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def load_page(page: Path, profile: Path, fragment: str = "") -> tuple[str, list[str]]:
    """Load a page from a file, at a fragment; give its DOM and its console's messages. Skip without a browser."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip(f"no browser ({', '.join(BROWSERS)}); apt-get install chromium")
    result = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr",
            f"--user-data-dir={profile}", "--dump-dom", f"{page.as_uri()}#{quote(fragment, safe='=')}",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )  # fmt: skip
    return result.stdout, [line for line in result.stderr.splitlines() if ":CONSOLE" in line]
