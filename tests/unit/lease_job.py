"""A job that leases an engine, for the tests of the lease.

    python lease_job.py NAME MODEL FOLDER DEVICE_COUNT [FLAG ...]

writes `NAME got`, with the devices it got, and `NAME done` to FOLDER/jobs and holds the lease until
FOLDER/NAME.go exists. MODEL `device` leases a device without an engine. Flags are the engine's.
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from fake_engine import hold_devices
from llm_variability.devices.lease import EngineRequest, lease_device, lease_engine


def main() -> None:
    name, model, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    logging.basicConfig(filename=folder / f"{name}.log", level=logging.INFO)
    engine = [sys.executable, str(Path(__file__).with_name("fake_engine.py"))]
    request = EngineRequest(
        model_name=model,
        identity=model,
        command=lambda socket: [*engine, str(socket), str(folder / "events"), *sys.argv[5:]],
        environment={},
        log=folder / "engine.log",
        load_timeout_s=30,
        device_count=int(sys.argv[4]),
        on_cpu=True,
    )

    def tell(*words: str) -> None:
        with (folder / "jobs").open("a") as file:
            file.write(" ".join((name, *words)) + "\n")

    with lease_device() if model == "device" else lease_engine(request) as leased:
        if isinstance(leased, str):
            held = hold_devices(folder / "events", leased)
            tell("got", leased)
        else:
            held = []
            tell("got", ",".join(leased.devices))
        while not (folder / f"{name}.go").exists():
            time.sleep(0.05)
        tell("done")
        del held


if __name__ == "__main__":
    main()
