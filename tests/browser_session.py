"""A real browser that a test drives by the DevTools protocol, over pipes, so that no port and no driver is needed."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tests.browser import BROWSERS

_WAIT = """new Promise((resolve, reject) => {{
  const end = Date.now() + {seconds} * 1000;
  const look = () => {{
    let found;
    try {{ found = {expression}; }} catch (error) {{ found = null; }}
    if (found) resolve(typeof found === "object" || found);
    else if (Date.now() > end) reject(new Error("waited in vain"));
    else setTimeout(look, 50);
  }};
  look();
}})"""


_LEFT = ("Inspected target navigated or closed", "Execution context was destroyed.")


class _PageLeftError(Exception):
    """The browser went to another page while an expression of the former one was waited for."""


class BrowserPage:
    """The one page of a browser.

    Attributes:
        complaints: What the browser has reported: blocked by a policy, errors of scripts, failed loads.
    """

    def __init__(self, commands: BinaryIO, answers: BinaryIO) -> None:
        self.complaints: list[str] = []
        self._commands, self._answers = commands, answers
        self._numbers = itertools.count(1)
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Give a command, and return its result; events that come meanwhile are noted."""
        number = next(self._numbers)
        command: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        self._commands.write(json.dumps(command).encode() + b"\0")
        self._commands.flush()
        while True:
            told = self._read()
            if told.get("id") == number:
                if told.get("error", {}).get("message") in _LEFT:
                    raise _PageLeftError
                assert "error" not in told, told
                return dict(told["result"])
            self._note(told)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression of the page; a promise is waited for."""
        told = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, (expression, told["exceptionDetails"])
        return told["result"].get("value")

    def wait(self, expression: str, seconds: int = 60) -> Any:
        """Wait until an expression of the page, or of one that follows it, is true, and return its value."""
        while True:
            try:
                return self.evaluate(_WAIT.format(expression=expression, seconds=seconds))
            except _PageLeftError:
                continue

    def load(self, address: str) -> None:
        """Load a page, and wait until its scripts have run."""
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def type(self, text: str) -> None:
        """Type into the element that has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press a key, as a person does who uses no mouse."""
        code = {"Enter": 13, "Escape": 27, "Tab": 9}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        self.call(
            "Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **text
        )
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def _read(self) -> dict[str, Any]:
        parts = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "the browser has ended"
            parts += byte
        return dict(json.loads(parts))

    def _note(self, told: dict[str, Any]) -> None:
        if told.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(told["params"]["exceptionDetails"]["text"])
        elif told.get("method") == "Log.entryAdded" and told["params"]["entry"]["level"] == "error":
            self.complaints.append(told["params"]["entry"]["text"])


@contextmanager
def open_browser(profile: Path, *, width: int = 1280, height: int = 850) -> Iterator[BrowserPage]:
    """Open a browser that reaches this machine alone. Skip without one.

    Args:
        profile: Folder of its own.
        width: Width of its window.
        height: Height of its window.
    """
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip(f"no browser ({', '.join(BROWSERS)}); apt-get install chromium")
    browser_reads, commands = os.pipe()
    answers, browser_writes = os.pipe()

    def place_pipes() -> None:
        # The browser takes commands from 3, and answers to 4; neither end may be overwritten by the other.
        first, second = os.dup(browser_reads), os.dup(browser_writes)
        os.dup2(first, 3)
        os.dup2(second, 4)

    process = subprocess.Popen(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-pipe",
            f"--window-size={width},{height}", f"--user-data-dir={profile}", "about:blank",
        ],
        preexec_fn=place_pipes,
        close_fds=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(browser_reads)
    os.close(browser_writes)
    try:
        with os.fdopen(commands, "wb") as writing, os.fdopen(answers, "rb") as reading:
            yield BrowserPage(writing, reading)
    finally:
        process.terminate()
        process.wait(600)
