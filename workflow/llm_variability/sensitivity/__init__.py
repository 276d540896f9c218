"""Sensitivity of one model's estimates: equal dispersion, equal length, texts that were not cut.

texts        from draws, vectors and cosine sums to the texts of each setting
dispersion   permutation tests of equal dispersion, from the residuals of unit vectors
length       contrasts at equal length: slopes of the cosine on length, by deletion of texts
analyses     every setting under every analysis, and the reasons where there is no estimate
"""

VERSION = 1
"""Changes when results of this stage change, so that they are made anew; else it stays."""
