"""Mixed models: one table for each study, model and measure, a row an estimate.

group_statistics   per-text sums to the counts, means and sums of squares of the groups
coding             the design's factors to the fixed effects' design matrix
random_intercept   what a fit takes and gives, whichever backend makes it
profile            REML from the groups' statistics, exactly, in milliseconds
mixedlm            the same fit by statsmodels, for comparison
fit_table          every setting at both levels, and the reasons where there is no fit
"""

VERSION = 2
"""Changes when results of this stage change, so that they are made anew; else it stays."""
