"""Benchmarks: ratios measured side by side in one run, with their raw figures and targets."""
