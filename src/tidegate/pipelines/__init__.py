"""Pipelines: a source's checkpoints, planned, delivered, committed, published and retained."""
