{#- Numbers that red flags of selective reporting compare (certainty.md §5): counts of the window, and those that they
    are compared with. Grain and key: agent, as-of, window. -#}
select
    windows.agent_id_hash,
    windows.as_of,
    windows.window_days,
    {{ epoch(
        '(windows.window_start - greatest(windows.baseline_start, ' ~ period_start('windows.first_traced_at') ~ '))'
    ) }} / 86400 as baseline_days,
    {% for name in constant('record_sign_counters') + constant('record_sign_arrays') %}
    windows.{{ name }},
    windows.baseline_{{ name }},
    {% endfor %}
    windows.n_recoveries,
    windows.n_modes,
    windows.n_earlier_recoveries,
    windows.n_earlier_modes,
    windows.n_raised_deferrals,
    windows.n_escalated_deferrals,
    windows.n_due_deferrals,
    windows.n_open_deferrals,
    windows.n_earlier_due_deferrals,
    windows.n_earlier_open_deferrals,
    windows.n_plausibilities,
    windows.n_commonest_plausibility,
    windows.n_triples,
    windows.equal_pairs,
    windows.equal_plausibilities,
    windows.equal_alignments,
    windows.equal_coherences
from {{ ref('int_windows') }} as windows
