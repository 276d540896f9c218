"""Validation: the measurement beside published values, on published texts.

lee2024      the 52,000 texts of Lee et al. 2024, checked by content, and what was published of them
sampling     samples of them, measured and fitted by the functions that measure a study
levels       what holds in all texts, from the texts and from the formats
comparison   the samples beside the published values, as a table and as one screen of text
figure       the same as dots

It only uses what the other stages are made of, and no stage uses it.
"""

TEXTS_VERSION = 1
"""Changes when the texts that are read or embedded change."""

VERSION = 2
"""Changes when what is made of them changes, so that it is made anew; else it stays."""
