"""Separation: does code tell who asked? Prompts are the units, tasks the strata.

permutations   labels that change places among prompts, all of them or drawn; p values from them
prompt_pairs   pairs of programs to mean similarities of pairs of prompts
similarity     is code from different personas less alike than from the same? (SEPARATION)
means          each feature of code and of wording by persona (PERSONA_MEANS)
tokens         a program's words: identifiers, keywords, kinds of literals
classifier     the persona guessed from the code (LEAKAGE, CONFUSIONS)
families       p values adjusted over the tests of a study
"""

VERSION = 1
"""Changes when results of this stage change, so that they are made anew; else it stays."""
