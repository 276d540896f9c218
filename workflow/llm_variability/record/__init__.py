"""Record: what lies in a results folder and what made it.

A README that describes every file and column, a snapshot of the workflow, and a Workflow Run
RO-Crate. The last stage: it reads the tables of all others.
"""

VERSION = 1
"""Raised whenever the same results would give another record."""
