"""Compares the display of a viewer with the spans of its capture."""
