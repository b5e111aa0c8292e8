"""Sinks: where rows go."""
