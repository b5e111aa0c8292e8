"""The rules of completeness, as values and pure functions: no I/O, no Spark, no clock of its own."""
