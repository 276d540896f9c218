"""Status: how far a run is, read from the files of its results folder.

Nothing is written and no lock is taken, so it may be asked at any time: while a run is at work,
here or on another machine of a shared folder, after its end, and after a crash.
"""
