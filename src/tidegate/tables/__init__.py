"""Maintained tables: declared, judged by one verdict, refreshed in one commit."""
