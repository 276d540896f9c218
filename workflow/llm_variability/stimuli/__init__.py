"""Stimuli: the prompts of a study, one row each, and how they are grouped and compared."""

VERSION = 1

STUDY_FIELDS = ("kind", "stimuli", "names", "formats", "draws", "greedy_draws")
"""What of a study's settings decides its prompts."""

CODE_FIELDS = ("kind", "stimuli", "tasks", "augmentation", "frame", "draws", "greedy_draws")
"""The same for a study of code, whose paraphrases come as a table."""

PERSONA_FIELDS = ("kind", "stimuli", "tasks", "personas", "frame", "draws", "greedy_draws")
"""The same for a study of personas, whose rewritten tasks come as a table."""
