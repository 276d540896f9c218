"""Paraphrases: a model rewords the prompts of a study of code.

`request` writes what the model is asked, a row a task and degree of diversity; the draws stage
draws it as it draws anything; `score` reads the answers, measures how far their wording and their
meaning went from the original (`scores`, `bertscore`), and says which of them become prompts.
"""

REQUEST_VERSION = 1
SCORE_VERSION = 1

REQUEST_FIELDS = ("model", "variants")
"""What of the settings decides the requests."""

SCORE_FIELDS = ("model", "least_similarity", "leave_out")
"""What of the settings decides how answers are read and scored, encoders aside."""
