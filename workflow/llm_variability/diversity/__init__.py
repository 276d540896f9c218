"""Diversity of a group's texts by measures without an encoder, and by the Vendi score.

words             texts to words, to n-grams and to categories
lexical           distinct-n, self-BLEU, compression ratio, probability of differentiation
vendi             effective number of texts, from their cosines
groups            every block x group of a setting, all with the same number of texts
estimates         values by group to a table, and to a table of estimates
differentiation   completions in CSV files to the probability of differentiation by group

Each measure comes with its values for the group without each of its texts, which is what its
standard error needs (`fits.measure_level`).
"""

VERSION = 2
"""Changes when results of this stage change, so that they are made anew; else it stays."""
