"""Augmentation: change a prompt by a known amount, and say exactly what was changed.

- `edits`: what every method returns, how many units a rate asks for, random streams, the frame.
- `keyboard`: characters become neighbours on a QWERTY keyboard.
- `synonym`: words become WordNet synonyms. `lexicon` reads WordNet, `wordnet` brings it here.
- `paraphrase`: what a model is asked, how its answer is read, scored and sorted into bands.
- `registry`: the methods by name, and a study's augmented texts.
- `published`: the calls of the published study, as they were, with the rate that they realise.
"""

VERSION = 1
WORDNET_VERSION = 1
