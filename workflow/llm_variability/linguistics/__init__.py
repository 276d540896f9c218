"""Wording of the prompts of personas: entities, topics, style.

words        the lists of words, and how often their entries stand in a sentence
parsing      texts to sentences of tagged words, noun phrases and names
prompts      rewritings and prompts brought together
entities     entities by persona, pairs of them in one sentence, what two personas share
entity_map   places of entities in the plane, and who uses them most
topics       topics of the prompts (LDA)
style        features of each prompt's wording

Only `parsing` needs spaCy; the rest takes its plain sentences.
"""

VERSION = 1
"""Changes when results of this stage change, so that they are made anew; else it stays."""
