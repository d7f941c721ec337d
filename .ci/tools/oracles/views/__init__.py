"""Compares what a viewer shows with the spans of the capture that it shows."""
