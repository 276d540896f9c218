"""Measure how much the outputs of language models vary.

One pipeline, stage by stage, each a subpackage that imports nothing of another stage:

    stimuli -> draws -> similarity -> fits -> report

`config` holds the typed settings and `tables` the columns of every table.
"""

__version__ = "0.1.0"
