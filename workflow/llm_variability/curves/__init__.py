"""How fast code changes as the prompt does: curves over the rate, one number a curve, differences.

points         a model's average similarities to arrays of tasks by points
resampling     weights of tasks: bootstrap samples, deleted tasks; intervals and errors from them
rescaling      means over tasks, and where they lie between floor and ceiling
curve_table    every point with its interval
shapes         area, half-life and slope of many curves at once
traces         the curve of a method over realised rates, and its likes without each task
summaries      these numbers of every curve, with intervals
contrasts      differences of models, methods and sets of tasks, with tests
task_slopes    mixed models with tasks as random effects
families       p values adjusted over the tests of a study
"""

VERSION = 1
"""Changes when results of this stage change, so that they are made anew; else it stays."""
