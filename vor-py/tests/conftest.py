"""Adds this folder to the import path, so that the tests find their shared code from any folder."""

import sys
from pathlib import Path

from vor import _core

_folder = Path(__file__).parent
sys.path.insert(0, str(_folder))

# In a build that only reads captures, only the tests of reading run.
collect_ignore = [
    path.name
    for path in _folder.glob("test_*.py")
    if not (_core.RECORDS or path.name.startswith("test_read"))
]
