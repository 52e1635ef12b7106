"""Chromium, driven by its DevTools protocol, for tests of pages."""

from __future__ import annotations

import fcntl
import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any


class Browser:
    """Chromium over the pipe of its DevTools protocol: JSON texts that end in a zero byte."""

    def __init__(self, program: str, folder: Path) -> None:
        low = (*os.pipe(), *os.pipe())  # may include 3 and 4, which Chromium reads and writes
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in low]
        for fd in low:
            os.close(fd)
        theirs_in, self._to, self._from, theirs_out = ends
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        where = ["--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"]
        redirected = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", redirected, "", program, *flags, *where],
            pass_fds=(theirs_in, theirs_out),
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._read, self._count, self._session = b"", 0, None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self._session = None
        self.call("Browser.close")
        self._process.wait(30)
        os.close(self._to)
        os.close(self._from)

    def call(self, method: str, **params: Any) -> Any:
        self._count += 1
        where = {} if self._session is None else {"sessionId": self._session}
        message = {"id": self._count, "method": method, "params": params} | where
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._count:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + 60
        while b"\0" not in self._read:
            ready = select.select([self._from], [], [], max(0, end - time.monotonic()))[0]
            chunk = os.read(self._from, 1 << 16) if ready else b""
            assert chunk, "Chromium does not answer"
            self._read += chunk
        text, _, self._read = self._read.partition(b"\0")
        return json.loads(text)

    def open(self, path: Path) -> None:
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._next())

    def js(self, expression: str) -> Any:
        options = {"returnByValue": True, "awaitPromise": True}
        found = self.call("Runtime.evaluate", expression=expression, **options)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def place(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, width, height of an element, brought into view.

        Two frames are drawn before: events of the mouse go to what was drawn last.
        """
        x, y, width, height = self.js(
            f"(async () => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'});"
            " const frame = () => new Promise((done) => requestAnimationFrame(done));"
            " await frame(); await frame(); const r = e.getBoundingClientRect();"
            " return [r.x, r.y, r.width, r.height]; })()"
        )
        return x, y, width, height

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=f"mouse{kind}", x=x, y=y, **more)

    def click(self, selector: str) -> None:
        x, y, width, height = self.place(selector)
        self.drag((x + width / 2, y + height / 2), (x + width / 2, y + height / 2))

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self.mouse("Moved", *start)
        self.mouse("Pressed", *start, button="left", clickCount=1)
        if start != end:
            self.mouse("Moved", *end, button="left", buttons=1)
        self.mouse("Released", *end, button="left", clickCount=1)

    def choose(self, selector: str, value: str) -> None:
        self.js(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            f" e.value = {json.dumps(value)}; e.dispatchEvent(new Event('change')); }})()"
        )

    def texts(self, selector: str) -> list[str]:
        found = f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)"
        return list(self.js(found))

    def count(self, selector: str) -> int:
        return len(self.texts(selector))

    def errors(self) -> list[Any]:
        """Exceptions, console messages and log entries of the page."""
        self.js("1")
        bad = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event["params"] for event in self.events if event.get("method") in bad]
