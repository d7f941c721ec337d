"""A program in a terminal of its own: tmux interprets what it draws."""
import pathlib
import shlex
import subprocess
import time

from .screen import HEIGHT, WIDTH, Screen, expect

# Screens are drawn four times a second.
PAUSE_S = 0.1
MAX_S = 60


class Terminal:
    def __init__(self, folder, command, env):
        self.tmux = ["tmux", "-S", str(pathlib.Path(folder) / "tmux"), "-f", "/dev/null"]
        words = " ".join(shlex.quote(str(word)) for word in command)
        self.run("new-session", "-d", "-x", str(WIDTH), "-y", str(HEIGHT),
                 f"{words}; echo ended $?; sleep {MAX_S * 10}", env=env)

    def run(self, *arguments, env=None):
        result = subprocess.run([*self.tmux, *arguments], env=env, timeout=20, check=True,
                                capture_output=True, text=True)
        return result.stdout

    def keys(self, *keys):
        for key in keys:
            self.run("send-keys", key)

    def screen(self):
        return Screen(self.run("capture-pane", "-p"))

    def until(self, what, is_shown):
        """Returns the first screen that shows something."""
        deadline = time.monotonic() + MAX_S
        while True:
            screen = self.screen()
            if is_shown(screen):
                return screen
            expect(time.monotonic() < deadline, f"{what} is not shown:\n{screen.text}")
            time.sleep(PAUSE_S)

    def close(self):
        self.run("kill-server")
