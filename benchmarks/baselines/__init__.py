"""What the measures compare with: the same work, written by hand as its best users would.

Nothing here imports Tidegate. Each baseline reads the same files with the same schema, applies the
same transform, and writes the same number of files with the same codec; nothing is inferred and
nothing is counted that the work does not need.
"""
