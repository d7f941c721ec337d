//! Payloads of all records but batches.
