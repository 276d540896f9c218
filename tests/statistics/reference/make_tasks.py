"""Write tasks.csv: made-up similarities of pairs of programs, by task and realised rate.

    python tests/statistics/reference/make_tasks.py > tests/statistics/reference/tasks.csv

Three studies of lines that differ between tasks: `even`, 8 tasks with 4 pairs at each of 5 rates;
`uneven`, 9 tasks with 0 to 6 pairs at rates of their own; `singular`, 8 tasks whose lines are one
line and a step that rises with the rate, so that intercepts and slopes are wholly correlated.
"""

from __future__ import annotations

import numpy as np

RATES = (0.0, 0.15, 0.3, 0.45, 0.6)


def main() -> None:
    rng = np.random.default_rng(5)
    print("study,task,realised,similarity")
    for study, n_tasks, spread in (("even", 8, 0.25), ("uneven", 9, 0.25), ("singular", 8, 0.0)):
        for task in range(n_tasks):
            intercept = 0.8 + 0.12 * rng.normal()
            slope = -0.6 + spread * rng.normal() + (intercept - 0.8 if spread == 0 else 0)
            for rate in RATES:
                pairs = 4
                if study == "uneven":
                    rate = round(rate * rng.uniform(0.6, 1), 3)
                    pairs = int(rng.integers(0, 7))
                for noise in 0.1 * rng.normal(size=pairs):
                    print(f"{study},{task},{rate},{intercept + slope * rate + noise:.6f}")


if __name__ == "__main__":
    main()
