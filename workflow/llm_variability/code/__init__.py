"""Code: from a model's reply to a program, its tree and the distance between two trees.

`extraction` finds the program in a reply and says whether it parses; `languages` names the
grammars; `trees` turns a program into labelled nodes; `edit_distance` is the exact tree edit
distance, on the vector loops of `row_scan`; `tsed` is the similarity that the study reports.

The stage: `extract` takes the programs out of a model's draws (`programs`); `features` says what
each reply holds (`replies`) and its program is made of (`features`); `tsed` and `cosine` list which
programs are compared (`pairs`), score them (`tree_scores`, `cosine_scores`) and average the scores
of each prompt (`averages`). In studies of personas `prompt-tsed` and `prompt-cosine` compare all
programs of a task (`prompt_pairs`).
"""

EXTRACT_VERSION = 1
TSED_VERSION = 1
COSINE_VERSION = 1
FEATURES_VERSION = 1
PROMPT_TSED_VERSION = 1
PROMPT_COSINE_VERSION = 1
