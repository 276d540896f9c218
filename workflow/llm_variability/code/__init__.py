"""Code: from a model's reply to a program, its tree and the distance between two trees.

`extraction` finds the program in a reply and says whether it parses; `languages` names the
grammars; `trees` turns a program into labelled nodes; `edit_distance` is the exact tree edit
distance, on the vector loops of `row_scan`; `tsed` is the similarity that the study reports.
"""

VERSION = 1
