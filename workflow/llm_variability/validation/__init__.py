"""Validation: the measurement beside published values, on published texts.

lee2024      the 52,000 texts of Lee et al. 2024, checked by content, and what was published of them
sampling     samples of them, measured and fitted by the functions that measure a study
comparison   the samples beside the published values, as a table and as one screen of text
figure       the same as dots

It only uses what the other stages are made of, and no stage uses it.
"""

VERSION = 1
"""Changes when results of this stage change, so that they are made anew; else it stays."""
