"""The checks of the Python module, which `.ci/python` runs."""
