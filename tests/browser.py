"""Drive headless Chromium through its own protocol, over two pipes: pages, pictures, and what a page did.

The protocol's messages are JSON, each ended by a zero byte. No other program and no network is needed.
"""

import base64
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.pictures import browser as installed_browser

PATIENCE = 120.0
"""Seconds after which an answer is no longer waited for."""

_SWITCHES = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"),
    *("--disable-extensions", "--no-first-run", "--proxy-server=127.0.0.1:9", "--disable-dev-shm-usage"),
)

_BECOME = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


@dataclass
class PageEvents:
    """What a page did since it was opened.

    Example:
        >>> PageEvents().suspicious
        []
    """

    dialogs: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    windows: list[str] = field(default_factory=list)

    @property
    def suspicious(self) -> list[str]:
        """Everything that a page of text does not do."""
        return [*self.dialogs, *self.console, *self.errors, *self.requests, *self.windows]


class Browser:
    """One browser with one page at a time."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._number, self._buffer = 0, b""
        self._session = ""
        self._target = ""
        self._loaded = False
        self.events = PageEvents()

    def open(
        self,
        address: str,
        *,
        width: int = 900,
        height: int = 900,
        dark: bool = False,
        script: bool = True,
        media: str = "",
    ) -> None:
        """Open an address on a page of its own, and wait until it is loaded."""
        self.close()
        self.events = PageEvents()
        self._loaded = False
        self._target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self._call("Target.attachToTarget", {"targetId": self._target, "flatten": True})
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", {"media": media, "features": [scheme]})
        self.call("Emulation.setScriptExecutionDisabled", {"value": not script})
        self._asked = address.partition("#")[0]
        self.call("Page.navigate", {"url": address})
        self.wait_until_loaded()

    def wait_until_loaded(self) -> None:
        """Wait for the event of a page that has loaded everything."""
        end = time.monotonic() + PATIENCE
        while not self._loaded:
            assert time.monotonic() < end, "the page was not loaded in time"
            self._take(self._message(end))

    def call(self, method: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Call a method of the protocol on the open page."""
        return self._call(method, parameters, self._session)

    def value(self, expression: str) -> Any:
        """Evaluate an expression of JavaScript in the page; wait for what it promises."""
        parameters = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        done = self.call("Runtime.evaluate", {**parameters, "userGesture": True})
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def key(self, key: str) -> None:
        """Press and release a key."""
        text = {"text": key} if len(key) == 1 else {}
        codes = {"Escape": 27, "Tab": 9, "Enter": 13}
        common = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()))}
        if key == "Enter":
            text = {"text": "\r"}
        self.call("Input.dispatchKeyEvent", {"type": "keyDown", **common, **text})
        self.call("Input.dispatchKeyEvent", {"type": "keyUp", **common})

    def picture(self, path: Path, *, tallest: int = 0, part: str = "") -> None:
        """Draw the whole page, or from the top of the element `part`, and as much as `tallest` pixels."""
        metrics = self.call("Page.getLayoutMetrics")["cssContentSize"]
        box = {"y": 0, "height": metrics["height"]}
        if part:
            box = self.value(f"document.querySelector({json.dumps(part)}).getBoundingClientRect().toJSON()")
        height = min(box["height"], tallest) if tallest else box["height"]
        clip = {"x": 0, "y": box["y"], "width": metrics["width"], "height": height, "scale": 1}
        shot = self.call("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self, path: Path) -> None:
        """Print the page."""
        done = self.call("Page.printToPDF", {"printBackground": True})
        path.write_bytes(base64.b64decode(done["data"]))

    def close(self) -> None:
        """Close the page."""
        if self._target:
            self._call("Target.closeTarget", {"targetId": self._target})
            self._target = self._session = ""

    def _call(self, method: str, parameters: Mapping[str, Any] | None = None, session: str = "") -> Any:
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": dict(parameters or {})}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._send, data) :]
        end = time.monotonic() + PATIENCE
        while True:
            answer = self._message(end)
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._take(answer)

    def _message(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._receive], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            piece = os.read(self._receive, 1 << 20)
            assert piece, "the browser has ended"
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        parsed: dict[str, Any] = json.loads(message)
        return parsed

    def _take(self, message: Mapping[str, Any]) -> None:
        """Note an event of the open page."""
        if message.get("sessionId") != self._session:
            return
        name, told = message.get("method"), message.get("params", {})
        if name == "Page.loadEventFired":
            self._loaded = True
        elif name == "Page.javascriptDialogOpening":
            self.events.dialogs.append(told["message"])
            # The page waits for an answer; that of this call is read later.
            self._number += 1
            answer = {"id": self._number, "method": "Page.handleJavaScriptDialog", "params": {"accept": True}}
            os.write(self._send, json.dumps({**answer, "sessionId": self._session}).encode() + b"\0")
        elif name == "Runtime.consoleAPICalled":
            self.events.console.append(json.dumps(told["args"]))
        elif name == "Runtime.exceptionThrown":
            self.events.errors.append(json.dumps(told["exceptionDetails"])[:500])
        elif name == "Log.entryAdded":
            self.events.errors.append(told["entry"]["text"])
        elif name == "Network.requestWillBeSent" and told["request"]["url"] != self._asked:
            self.events.requests.append(told["request"]["url"])
        elif name in ("Page.windowOpen", "Page.downloadWillBegin"):
            self.events.windows.append(str(told.get("url")))


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser, and end it."""
    path = installed_browser()
    assert path is not None, "there is no Chromium on this machine"
    to_browser, from_browser = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The protocol is on the descriptors 3 and 4: a small program moves the pipes there.
        command = [sys.executable, "-c", _BECOME, str(to_browser[0]), str(from_browser[1]), path, *_SWITCHES]
        process = subprocess.Popen(
            [*command, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_browser[0], from_browser[1]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser[0])
        os.close(from_browser[1])
        try:
            yield Browser(to_browser[1], from_browser[0])
        finally:
            os.close(to_browser[1])
            os.close(from_browser[0])
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
