#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`pincap run` as a job of an interactive shell, on a terminal of its own.

Usage: run_tty.py PINCAP. Exit code 0 if ctrl-C reached the command exactly once,
ctrl-Z stopped the job and gave the shell its terminal back, and fg went on.
"""
import os
import pty
import re
import select
import sys
import time

COMMAND = r"""python3 -c 'import signal, time
got = []
signal.signal(signal.SIGINT, lambda *a: got.append(1))
print("rea" + "dy", flush=True)
end = time.monotonic() + 60
while not got and time.monotonic() < end: time.sleep(0.05)
time.sleep(0.5)
print("interrupts=%d" % len(got), flush=True)
raise SystemExit(5)'"""


class Terminal:
    def __init__(self):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(PS1="prompt> ", TERM="dumb")
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self.text = ""

    def expect(self, pattern, seconds=10):
        end = time.monotonic() + seconds
        while True:
            match = re.search(pattern, self.text)
            if match:
                self.text = self.text[match.end():]
                return match
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                sys.exit(f"no {pattern!r} in {self.text!r}")
            self.text += os.read(self.fd, 4096).decode(errors="replace")

    def send(self, text):
        os.write(self.fd, text.encode())


def main():
    t = Terminal()
    t.expect("prompt> ")
    t.send(f"{sys.argv[1]} run -q {COMMAND}\n")
    t.expect("ready")
    t.send("\x1a")
    t.expect("Stopped")
    t.expect("prompt> ")
    t.send("echo shell-$((40 + 2))\n")
    t.expect("shell-42")
    t.send("fg\n")
    t.expect("run -q")
    time.sleep(0.3)
    t.send("\x03")
    count = t.expect(r"interrupts=(\d+)").group(1)
    t.expect("prompt> ")
    t.send("echo code-$?\n")
    code = t.expect(r"code-(\d+)").group(1)
    t.send("exit\n")
    os.waitpid(t.pid, 0)
    if (count, code) != ("1", "5"):
        sys.exit(f"interrupts {count}, exit code {code}")


main()
