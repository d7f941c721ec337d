"""The tests import what they share from this folder, under whatever folder pytest is called in."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
