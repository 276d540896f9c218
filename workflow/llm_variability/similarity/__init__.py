"""Similarity: how alike the texts of a group are.

`embed` turns each distinct text into a unit vector, once per encoder; `cosine` writes, for each
text, the number of its mates and the sum and sum of squares of its cosines to them.
"""

EMBED_VERSION = 1
COSINE_VERSION = 1
