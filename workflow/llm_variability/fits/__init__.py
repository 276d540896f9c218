"""Group differences of a study, model and measure: one table, a row an estimate.

group_statistics   per-text sums to the counts, means and sums of squares of the groups
coding             the design's factors to the fixed effects' design matrix
random_intercept   what a fit takes and gives, whichever backend makes it
profile            REML from the groups' statistics, exactly, in milliseconds
mixedlm            the same fit by statsmodels, for comparison
contrasts          published contrasts, contrasts averaged over factors, interactions
text_variance      the variance of a group's mean cosine, by deleting texts or names
text_inference     standard errors with formats fixed or random; simultaneous intervals
text_level         every contrast of one setting under both scopes
dyadic             dyadic-cluster-robust covariance of the pairwise model, as a check
bootstrap          mean cosines of texts drawn anew from their vectors, as a check
fit_table          every setting at every level, and the reasons where there is no fit
multiplicity       p values adjusted over a family of tests
"""

VERSION = 4
"""Changes when results of this stage change, so that they are made anew; else it stays."""

ADJUST_VERSION = 1
"""The same for the adjustment of p values."""
