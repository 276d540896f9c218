"""Dialogues: the model may ask who wants a program before it writes one, and the persona answers.

The code paper's future work (section VII): one step of interaction beside a dialogue. The other arm
is the study's own draws, of the same prompts without the invitation to ask.

`invite` puts the invitation behind each prompt, which is turn 0; the draws stage draws it as it
draws anything. Then, exchange by exchange: `ask` takes the replies that are questions (`replies`)
and writes what the persona is asked, the draws stage draws the answers, and `continue` writes the
conversations so far, which are the next turn's prompts (`turns`). `tabulate` says how each dialogue
ended (`endings`), and `compare` how far its program is from those without a dialogue (`changes`).
"""

INVITE_VERSION = 1
ASK_VERSION = 1
CONTINUE_VERSION = 1
TABULATE_VERSION = 1
COMPARE_VERSION = 1
