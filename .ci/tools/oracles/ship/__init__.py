"""Ships segments to an S3 server that fails, and compares the objects with the segments."""
