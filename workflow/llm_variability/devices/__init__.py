"""Devices: who may use which GPU (or, without one, the machine's cores), and what runs there.

Not a stage: draws and similarity both take the lease.

Each model is loaded once a run, by the order in which jobs may start. All that draws need comes
first, alone, by taking every slot of the resource `engine`; then each model's cells before the
next model's, models that fit on the devices side by side together (`placing.rank_models`); then
whatever else may want a device.
"""

BEFORE_DRAWS = 2000
"""Priority of the jobs whose results draws need."""

DRAWS_FIRST = 1000
"""Priority of the first models' cells; that of each further rank of models is one less."""

ALL_ENGINES = 1000
"""More slots of the resource `engine` than any profile gives: all of them."""
