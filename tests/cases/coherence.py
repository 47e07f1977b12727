"""Cases of S (scoring.md §7), the mean of sigma / sigma_max over the period ends of the window.

A signal keeps f = 95 % of its weight a day.
"""

from cases.notation import Case, Row, ago, traces

F = 0.95
BY_HOUR = 1 - 0.05 / 24

CASES = [
    Case(
        "7 without a signal, S is 0 and unmeasured, and the steady score and its bounds are 0",
        traces(ago(1), 30, coherence_passed=None),
        {
            "unmeasured_components": ["delta_drift", "s_score"],
            "s_score": 0,
            "n_signals": 0,
            "sigma": 0,
            "sigma_max": 0,
            "s_score_steady": 0,
            "capacity_score_steady": 0,
            "capacity_score_steady_low": 0,
            "capacity_score_steady_high": 0,
            "grant_score": 0,
            "probability_at_threshold": 0,
        },
    ),
    Case(
        "7 a signal loses 5 % a day, and S is the mean over the period ends that have a signal",
        [*traces(ago(2, hours=1), coherence_passed=False), *traces(ago(hours=1))],
        # sigma / sigma_max is 0 at T - 2 and T - 1 days, and 0.5 / (0.5 + 0.5 f^2) at T, where f is 0.95. By the hour
        # there are 49 period ends.
        [
            Row(
                {"sigma": 0.5, "sigma_max": 0.5 + 0.5 * F**2, "s_score": 1 / (1 + F**2) / 3},
                {"sigma_max": 0.5 + 0.5 * BY_HOUR**48, "s_score": 1 / (1 + BY_HOUR**48) / 49},
            )
        ],
    ),
    Case(
        "7 S does not include the period end at which the window begins",
        [*traces(ago(7, hours=1), coherence_passed=False), *traces(ago(6, hours=1))],
        # sigma / sigma_max is 1 / (1 + 0.95) from T - 6 days to T. It is 0 at T - 7 days, which is not in the window.
        # By the hour, it is 0 at the first 23 of 168 period ends, because they are before T - 6 days.
        [Row({"s_score": 1 / (1 + F)}, {"s_score": 145 / 168 / (1 + BY_HOUR**24)})],
    ),
    Case(
        "7 signals count for 30 days, the lookback horizon",
        [
            *traces(ago(30), agent="remembered", coherence_passed=False),
            *traces(ago(30, us=1), agent="forgotten", coherence_passed=False),
            *traces(ago(hours=1), agent="remembered"),
            *traces(ago(hours=1), agent="forgotten"),
        ],
        # The first signal of agent "remembered" counts at all seven period ends. The first signal of agent "forgotten"
        # counts until T - 1 day, but not at T. By the hour it counts until T - 1 hour, at 167 of 168 period ends.
        [
            Row(
                {"sigma": 0.5, "sigma_max": 0.5 + 0.5 * F**29, "s_score": 1 / (1 + F**29) / 7},
                {"sigma_max": 0.5 + 0.5 * BY_HOUR**719, "s_score": 1 / (1 + BY_HOUR**719) / 168},
                agent="remembered",
            ),
            Row({"sigma": 0.5, "sigma_max": 0.5, "s_score": 1 / 7}, {"s_score": 1 / 168}, agent="forgotten"),
        ],
    ),
    Case(
        "7 a signal weighs 1 when another agent agrees within 0.1, else 0.5",
        [
            *traces(ago(0, 2), agent="A", coherence_level=0.9),
            *traces(ago(0, 2), agent="B", coherence_level=0.8),
            *traces(ago(0, 4), agent="C", coherence_level=0.9),
            *traces(ago(0, 4), agent="D", coherence_level=0.799),
            *traces(ago(0, 6), agent="E", coherence_level=0.9),
        ],
        [
            Row({"sigma_max": 1}, {"sigma_max": BY_HOUR}, agent="A"),
            Row({"sigma_max": 1}, {"sigma_max": BY_HOUR}, agent="B"),
            Row({"sigma_max": 0.5}, {"sigma_max": 0.5 * BY_HOUR**3}, agent="C"),
            Row({"sigma_max": 0.5}, {"sigma_max": 0.5 * BY_HOUR**3}, agent="D"),
            Row({"sigma_max": 0.5}, {"sigma_max": 0.5 * BY_HOUR**5}, agent="E"),
        ],
    ),
    Case(
        "7 two agents agree if their mean coherence levels differ by exactly 0.1",
        [
            *traces(ago(0, 13), 3, agent="A", coherence_level=[0.1, 0.1, 0]),
            *traces(ago(0, 13), 3, agent="B", coherence_level=[0.1, 0.2, 0.2]),
        ],
        [Row({"sigma": 3}, {"sigma": 3 * BY_HOUR**12})],
    ),
    Case(
        "7 a signal at the full hour belongs to the hour that begins then",
        [
            *traces(ago(0, 16), agent="A", coherence_level=0.4),
            *traces(ago(0, 15, us=1), agent="B", coherence_level=0.4),
            *traces(ago(0, 15), agent="C", coherence_level=0.4),
        ],
        [
            Row({"sigma": 1}, {"sigma": BY_HOUR**15}, agent="A"),
            Row({"sigma": 0.5}, {"sigma": 0.5 * BY_HOUR**14}, agent="C"),
        ],
    ),
]
