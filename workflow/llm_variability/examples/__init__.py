"""Examples: a few draws of every setting and group, chosen by a rule that does not read them.

Of each setting and group (an augmentation in studies of code, a persona in studies of personas), in
the block (the format or task) whose mean similarity is the median of the group's blocks, of an even
number the lower of the two in the middle: the draw that is on average most like those it is
compared with (medoid) and the one that is least like them (farthest). Of equals the first in the
order of the prompts and draws; where all are equally alike, that one alone. A setting and group in
which nothing can be compared has its first draw. Besides, of each model, the first draw of each
status that is not ok, and of each kind of reply without a program, of each of a few prompts.

    python -m llm_variability.examples --help
"""

VERSION = 1
