{#- What the signs of a polished record are judged by (certainty.md §5): counts of the window and of what it is compared
    with, made where they can be summed. Grain and key: agent, as-of, window. events_as_of and statistics_as_of are
    as_of again: whoever reads a range names all three, so that each table is read by its own index. -#}
select
    sums.agent_id_hash,
    sums.as_of,
    sums.window_days,
    events.as_of as events_as_of,
    window_statistics.as_of as statistics_as_of,
    {{ epoch(
        '(sums.window_start - greatest(sums.baseline_start, ' ~ period_start('agents.first_traced_at') ~ '))'
    ) }} / 86400 as baseline_days,
    {% for name in baseline_sums() %}
    sums.{{ name }},
    sums.baseline_{{ name }},
    {% endfor %}
    sums.n_recoveries,
    events.n_modes,
    events.n_earlier_recoveries,
    events.n_earlier_modes,
    events.n_raised_deferrals,
    events.n_escalated_deferrals,
    events.n_due_deferrals,
    events.n_open_deferrals,
    events.n_earlier_due_deferrals,
    events.n_earlier_open_deferrals,
    window_statistics.n_plausibilities,
    window_statistics.n_commonest_plausibility,
    window_statistics.n_triples,
    window_statistics.equal_pairs,
    window_statistics.equal_plausibilities,
    window_statistics.equal_alignments,
    window_statistics.equal_coherences
from {{ ref('int_window_sums') }} as sums
inner join {{ ref('int_agents') }} as agents on sums.agent_id_hash = agents.agent_id_hash
inner join {{ ref('int_window_events') }} as events
    on
        sums.agent_id_hash = events.agent_id_hash
        and sums.as_of = events.as_of
        and sums.window_days = events.window_days
inner join {{ ref('int_window_statistics') }} as window_statistics
    on
        sums.agent_id_hash = window_statistics.agent_id_hash
        and sums.as_of = window_statistics.as_of
        and sums.window_days = window_statistics.window_days
