"""Compares exported Parquet tables with the spans and metrics of the capture."""
