"""Spark: its jars, its session, its files. No other room touches the SparkContext or the JVM."""
