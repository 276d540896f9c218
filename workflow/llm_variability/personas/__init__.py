"""Personas: a model takes each persona and writes the task down in that persona's words.

`request` writes what the model is asked in one round, a row a task and persona that still lacks a
prompt; the draws stage draws it as it draws anything; `read` reads the answers of all rounds and
says which of them become prompts. An answer that cannot be used is tried again in the next round.
"""

REQUEST_VERSION = 1
READ_VERSION = 1

SETTINGS_READ = ("model", "roles", "genders", "iterations", "leave_out")
"""What of the settings decides what is asked for in a round, and how answers are read."""
