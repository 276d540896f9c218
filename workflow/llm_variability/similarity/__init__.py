"""Similarity: how alike the texts of a group are.

`embed` turns each distinct text into a unit vector, once per encoder; `cosine` writes, for each
text, the number of its mates, the sum and sum of squares of its cosines to them, and whether the
encoder cut its end off.
"""

EMBED_VERSION = 2
COSINE_VERSION = 2
