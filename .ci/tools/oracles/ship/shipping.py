"""Runs `vor ship` against a server, and kills it."""
import os
import random
import shutil
import signal
import subprocess
import time

from .judge import expect

# Attempts without a kill; faults may outlast several.
MAX_RUNS = 20


class Shipping:
    """`env` has the settings of the storage, and `secret` is a part of them."""

    def __init__(self, vor, env, secret, target, seed):
        self.vor = vor
        self.secret = secret
        self.target = target
        self.random = random.Random(seed)
        self.kills = 0
        # Whatever else the environment has must not reach another storage.
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith(("AWS_", "AZURE_", "GOOGLE_", "VOR_"))}
        self.env |= env

    def start(self, folder, *options):
        return subprocess.Popen([self.vor, "ship", *options, folder, self.target], env=self.env,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def once(self, folder, *options, kills, codes=(0,)):
        """Ships a folder: `kills` times until a SIGKILL at a random moment, then to the end."""
        for _ in range(kills):
            process = self.start(folder, "--once", *options)
            try:
                process.communicate(timeout=self.random.uniform(0.01, 0.6))
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                self.kills += 1
        for _ in range(MAX_RUNS):
            process = self.start(folder, "--once", *options)
            out, err = process.communicate(timeout=120)
            self.expect_plain(out + err)
            if process.returncode != 2:
                break
        expect(process.returncode in codes, f"{folder}: status {process.returncode}: {err}")
        return out.strip()

    def follow(self, source, folder, *options):
        """Follows a folder while the segments of another arrive in it; ends it by SIGTERM."""
        folder.mkdir()
        process = self.start(folder, *options)
        for path in sorted(source.glob("*.vor")):
            part = folder / f".{path.name}.part"
            shutil.copy(path, part)
            part.rename(folder / path.name)
            time.sleep(0.05)
        deadline = time.monotonic() + 60
        while len(shipped(folder)) < len(list(source.glob("*.vor"))):
            expect(process.poll() is None, f"it ended with status {process.poll()}")
            expect(time.monotonic() < deadline, f"{folder} is not shipped after 60 s")
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
        self.expect_plain(out + err)
        expect(process.returncode == 0, f"status {process.returncode}: {err}")
        return out.strip()

    def expect_plain(self, text):
        expect(self.secret not in text, "a secret is printed")
        expect("panicked" not in text, text)


def shipped(folder):
    """Returns the lines of the journal, without its head."""
    journals = [path for path in folder.glob(".vor-ship-*") if "." not in path.name[1:]]
    return [line for journal in journals for line in journal.read_text().splitlines()[1:]]
