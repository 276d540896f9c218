"""Calibration: how often each test rejects and each interval covers where the truth is known.

studies      kinds of studies and their samples, as sufficient statistics of many at once
candidates   the tests of the package, and those that they were chosen from
rates        how often they reject and cover, kind by kind
table        the rates as a table, the one that ships with the workflow, and what it says
figure       the rates of the tests of the package, as dots
document     the table in Markdown, written into the documentation

It uses `fits` and the look of the figures. The report may use `table`, no other stage
uses any of it.
"""

VERSION = 2
"""Changes when results of this stage change, so that they are made anew; else it stays."""
