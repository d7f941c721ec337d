"""Compares a trace with the events that a test recorded, to the nanosecond."""
