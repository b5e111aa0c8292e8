"""Sources: what a pipeline reads."""
