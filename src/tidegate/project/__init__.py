"""A folder of tidegate.yml, Python and SQL becomes declarations, and those are wired to the rooms."""
