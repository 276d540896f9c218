"""Draws: every model answers every prompt, at every cell of the grid.

One cell (model, temperature, top-p) is one job and one Parquet file. A finished draw is written
to the cell's journal at once; the Parquet file is made from the journal.
"""

VERSION = 2
COUNTS_VERSION = 3
THROUGHPUT_VERSION = 1
