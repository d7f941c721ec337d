"""Adds this folder to the import path, so that the tests find their shared code from any folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
