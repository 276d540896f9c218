"""Planning: what a study costs and what it can find, before anything is drawn.

counts      prompts, draws, tokens, hours and disk of a configuration
population  how texts, pairs and formats vary: of a pilot run, or of published texts
simulation  the mean cosines of studies that are not yet made, and their variances
power       the smallest difference a study finds, and how many texts a difference needs
screen      all of it on one screen, and as JSON

No rule runs this and no result depends on it, so it has no version.
"""
