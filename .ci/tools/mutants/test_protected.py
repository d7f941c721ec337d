import os
import pathlib
import subprocess
import unittest

PROTECTED = pathlib.Path(__file__).with_name("protected")


class Protected(unittest.TestCase):
    def test_files_of_dev_stay_and_all_else_works(self):
        script = "touch /dev/vor-mutant; echo lost >/dev/null; exit 7"
        done = subprocess.run([PROTECTED, "sh", "-c", script], capture_output=True, text=True)
        try:
            self.assertIn("/dev/vor-mutant", done.stderr)
            self.assertFalse(os.path.exists("/dev/vor-mutant"))
            self.assertEqual((done.returncode, done.stdout), (7, ""))
        finally:
            pathlib.Path("/dev/vor-mutant").unlink(missing_ok=True)


if __name__ == "__main__":
    unittest.main()
