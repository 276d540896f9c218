"""Stimuli: the prompts of a study, one row each, and how they are grouped and compared."""

VERSION = 1

STUDY_FIELDS = ("kind", "stimuli", "names", "formats", "draws", "greedy_draws")
"""What of a study's settings decides its prompts."""
