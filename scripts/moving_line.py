"""One line at the bottom of the screen that shows that something is going on. Where no terminal is, a line now and then."""

import shutil
import subprocess
import sys
import threading
import time

EVERY_SECONDS = 0.25
IN_A_LOG_SECONDS = 15.0


class MovingLine:
    """Written anew from a thread while the work is done; `news` is what it is doing at the moment."""

    def __init__(self, text):
        self._text = text
        self._news = ""
        self._began = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._terminal = sys.stderr.isatty()

    def __enter__(self):
        if not self._terminal:
            self._put("set-up: " + self._text + "\n")
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        if self._terminal:
            self._put(f"\r\033[Kset-up: {self._text} ({self._seconds():.0f} s)\n")

    def news(self, text):
        self._news = text

    def note(self, text):
        """A line that stays, above this one."""
        self._put(("\r\033[K" if self._terminal else "") + f"set-up: {text}\n")

    def _seconds(self):
        return time.monotonic() - self._began

    def _write(self):
        while not self._over.wait(EVERY_SECONDS if self._terminal else IN_A_LOG_SECONDS):
            news = "  " + self._news if self._news else ""
            line = f"set-up: {self._text}, {self._seconds():.0f} s{news}"
            if self._terminal:
                width = max(shutil.get_terminal_size().columns - 1, 20)
                self._put("\r" + line[:width] + "\033[K")
            else:
                self._put(line + "\n")

    def _put(self, text):
        sys.stderr.write(text)
        sys.stderr.flush()


def run_shown(command, text, env=None):
    """The exit code and all that it said; meanwhile its newest line is on the screen."""
    with MovingLine(text) as line:
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        said = []
        for each in process.stdout:
            said.append(each)
            line.news(each.strip())
        return process.wait(), "".join(said)
