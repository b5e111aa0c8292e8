"""The lake: Delta tables by their log."""
