"""Fetch: bring every model and encoder to this machine before anything runs.

Writes one manifest (JSON) for each, with the folder that holds the weights and the checksum or
revision that names them. Hub weights go to the shared cache of huggingface_hub.
"""

VERSION = 1
