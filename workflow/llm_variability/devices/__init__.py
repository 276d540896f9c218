"""Devices: who may use a GPU (or, without one, the machine's cores), and what runs there.

Not a stage: draws and similarity both take the lease.
"""
