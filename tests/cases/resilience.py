"""Cases of R (scoring.md §5): R = norm((1 - drift) / (1 + MTTR) (1 - rho))."""

from datetime import timedelta
from math import exp, log

from cases.notation import Case, Row, Source, ago, norm, traces

METRICS = ("csdma_plausibility_score", "dsdma_domain_alignment", "coherence_level")
TWO_BINS = [1] * 20 + [0] * 20

# The window has 40 traces in the last bin, the baseline 20 in the first bin and 20 in the last. Together the bins have
# 20 and 60 of 80, so the 10 alpha = 5 pseudo-counts are 1.25 and 3.75. Two bins have values, so
# m = 2.
MOVED = 1 - exp(-(43.75 / 45 * log(43.75 / 23.75) + 1.25 / 45 * log(1.25 / 21.25) - (2 - 1) / 2 * (1 / 40 + 1 / 40)))

SHUFFLED = [5, 12, 1, 16, 9, 3, 14, 7, 2, 11, 6, 15, 4, 13, 8, 10]
"""Numbers from 1 to 16 in random order."""


def episode(start: float, end: float | None, mode: str) -> list[Source]:
    """Return an episode from ``start`` hours to ``end`` hours before T, or an open episode if ``end`` is None."""
    found = traces(ago(hours=start), idma_fragility_flag=True, idma_phase=mode)
    return found if end is None else found + traces(ago(hours=end), idma_fragility_flag=False)


CASES = [
    Case(
        "5 drift is 1 - exp(-KL') in nats, the mean over the metrics that are measurable",
        [
            *traces(ago(10), 40, agent="one", csdma_plausibility_score=None, dsdma_domain_alignment=TWO_BINS),
            *traces(ago(1), 40, agent="one", csdma_plausibility_score=None),
            *traces(ago(10), 40, agent="two", dsdma_domain_alignment=TWO_BINS),
            *traces(ago(1), 40, agent="two"),
        ],
        agents={
            "one": {
                "delta_dsdma_domain_alignment": MOVED,
                "delta_csdma_plausibility_score": None,
                "delta_coherence_level": None,
                "delta_drift": MOVED,
                "r_score": norm(1 - MOVED),
                "unmeasured_components": ["ece"],
            },
            "two": {"delta_csdma_plausibility_score": 0, "delta_drift": MOVED / 2, "r_score": norm(1 - MOVED / 2)},
        },
    ),
    Case(
        "5 drift is the divergence of the window's histogram from the baseline's histogram",
        [*traces(ago(10), 40), *traces(ago(1), 40, dsdma_domain_alignment=TWO_BINS)],
        {
            "delta_dsdma_domain_alignment": 1
            - exp(-(23.75 / 45 * log(23.75 / 43.75) + 21.25 / 45 * log(21.25 / 1.25) - 1 / 40))
        },
    ),
    Case(
        "5 windows of equal distribution have no drift, whatever their sizes",
        [
            row
            for agent, n_before, values in (
                ("1,000 and 30", 1000, [0.8]),
                ("300 and 30", 300, [0.8]),
                ("half and half", 1000, [0.8, 0.9]),
                ("tenths", 1000, [bin_ / 10 for bin_ in range(10)]),
            )
            for start, n in ((ago(10), n_before), (ago(1), 30))
            for row in traces(
                start,
                n,
                agent=agent,
                every=timedelta(seconds=10),
                **{metric: values * (n // len(values)) for metric in METRICS},
            )
        ],
        [
            Row({**{f"delta_{metric}": 0 for metric in METRICS}, "delta_drift": 0, "r_score": norm(1)}, agent=agent)
            for agent in ("1,000 and 30", "300 and 30", "half and half", "tenths")
        ],
    ),
    Case(
        "5 a metric needs 30 values in the window and 30 in the baseline",
        [
            *traces(ago(10), 30, agent="30"),
            *traces(ago(1), 30, agent="30"),
            *traces(ago(10), 29, agent="29 before"),
            *traces(ago(1), 60, agent="29 before"),
            *traces(ago(10), 31, agent="29 now"),
            *traces(ago(1), 31, agent="29 now", dsdma_domain_alignment=[1] * 29 + [None] * 2),
        ],
        agents={
            "30": {"delta_dsdma_domain_alignment": 0, "unmeasured_components": []},
            "29 before": {"delta_dsdma_domain_alignment": None, "unmeasured_components": ["delta_drift"]},
            "29 now": {
                "delta_dsdma_domain_alignment": None,
                "delta_csdma_plausibility_score": 0,
                "unmeasured_components": [],
            },
        },
    ),
    Case(
        "5 MTTR is the mean duration of the episodes that ended in the window and of the open episode",
        [
            *episode(24 * 8, 24 * 7.5, "ended before"),  # not counted
            *episode(24 * 7 + 5, 24 * 7, "ended as the window began"),  # 5 hours
            *episode(50, 47, "in the window"),  # 3 hours
            *episode(10, None, "open"),  # 10 hours
        ],
        {
            "mttr_hours": (5 + 3 + 10) / 3,
            "n_episodes": 3,
            "n_open_episodes": 1,
            "rho_regression": 0,
            "r_score": norm(1 / (1 + 6)),
        },
    ),
    Case(
        "5 an episode that ends at T is open at T",
        [*episode(4, 0, "chaos"), *traces(ago(hours=9))],
        {"mttr_hours": 4, "n_open_episodes": 1},
    ),
    Case(
        "5 rho is the share of recoveries with a later episode of the same mode",
        [*episode(50, 49, "a"), *episode(40, 39, "b"), *episode(30, 29, "a"), *episode(20, 19, "c")],
        # One of the four recoveries is followed by a later episode of the same mode, "a". MTTR is 1 hour.
        {"rho_regression": 1 / 4, "mttr_hours": 1, "r_score": norm(1 / 2 * 3 / 4)},
    ),
    Case(
        "5 a relapse counts only if the recovery before it is in the window",
        [*episode(24 * 8, 24 * 7.5, "a"), *episode(30, 29, "a"), *episode(0, None, "a")],
        # A recovery before the window does not count, nor does an episode that begins at T.
        [Row({"rho_regression": 0}), Row({"rho_regression": 1 / 2}, window=30)],
    ),
    Case(
        "5 episodes at the same time are ordered by their audit numbers",
        traces(
            ago(2),
            len(SHUFFLED),
            every=timedelta(),
            audit_sequence_number=SHUFFLED,
            idma_fragility_flag=[number % 2 == 1 for number in SHUFFLED],
            idma_phase=["a" if number % 4 in (1, 2) else "b" for number in SHUFFLED],
        ),
        # In the order of audit numbers, the modes "a" and "b" alternate, so the first 6 of 8 episodes have a relapse.
        {"rho_regression": 6 / 8, "mttr_hours": 0, "r_score": norm(2 / 8)},
    ),
]
