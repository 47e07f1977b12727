{{
  config(
    materialized='replace_range',
    meta={'scored_range': 'as_of'},
    indexes=[{'columns': ['as_of']}],
    pre_hook="{{ set_for_heavy_work() }}",
  )
}}
{#- The rows of every factor (scoring.md §1): the as-ofs T after the cutoff and the windows [T - W, T) with a trace.
    Each has the agent's name at T, its sums in the window and, for drift and the signs, in the baseline: differences of
    running totals; and the episodes that ended in the steady days, and in as many before the window (certainty.md §4
    and 4b). Grain and key: agent, as-of, window. agent_name is null while the agent has sent none. -#}
{%- set totals = ref('int_agent_totals') -%}
with scored_windows as (

    select
        spine.agent_id_hash,
        spine.as_of,
        windows.window_days,
        windows.coherence_days,
        spine.as_of - {{ days('windows.window_days') }} as window_start,
        spine.as_of - {{ days('windows.window_days + windows.baseline_days') }} as baseline_start
    from {{ ref('int_agent_spine') }} as spine
    cross join {{ ref('scoring_windows') }} as windows
    cross join {{ ref('int_scoring_run') }} as run
    where
        spine.as_of > run.cutoff
        and spine.as_of <= run.as_of
        and spine.last_traced_period_start >= spine.as_of - {{ days('windows.window_days') }}

),

agents as (

    select
        agent_id_hash,
        first_traced_at
    from {{ ref('int_agents') }}

),

agent_names as (

    select
        agent_id_hash,
        agent_name,
        named_from,
        named_until
    from {{ ref('int_agent_names') }}

),

window_sums as (

    select
        scored_windows.*,
        {% for name in window_counters() + (window_arrays().keys() | list) %}
        {{ window_sum(name, 'at_end', 'at_start') }} as {{ name }},
        {% endfor %}
        {% for name in baseline_sums() %}
        {{ window_sum(name, 'at_start', 'at_baseline_start') }} as baseline_{{ name }},
        {% endfor %}
        {% for name in ['n_recoveries', 'recovery_microseconds'] %}
        {{ window_sum(name, 'at_end', 'at_steady_start') }} as steady_{{ name }},
        {% endfor %}
        {% for name in ['n_recoveries', 'recovery_microseconds', 'log_recovery_hours', 'log_recovery_hours_squared'] %}
        {{ window_sum(name, 'at_start', 'at_before_start') }} as before_{{ name }},
        {% endfor %}
        {{ window_sum('sums_hash', 'at_end', 'at_memory_start') }} as memory_hash
    from scored_windows
    cross join lateral {{ totals_before(totals, 'scored_windows.agent_id_hash', 'scored_windows.as_of') }} as at_end
    left join lateral {{ totals_before(totals, 'scored_windows.agent_id_hash', 'scored_windows.window_start') }}
        as at_start
        on true
    left join lateral {{ totals_before(totals, 'scored_windows.agent_id_hash', 'scored_windows.baseline_start') }}
        as at_baseline_start
        on true
    left join lateral {{ totals_before(
        totals, 'scored_windows.agent_id_hash',
        'least(scored_windows.baseline_start, scored_windows.window_start - ' ~ days('scored_windows.coherence_days') ~ ')'
    ) }} as at_memory_start
        on true
    left join lateral {{ totals_before(
        totals, 'scored_windows.agent_id_hash',
        'least(scored_windows.window_start, scored_windows.as_of - ' ~ days(scoring_parameter('steady_days')) ~ ')'
    ) }} as at_steady_start
        on true
    left join lateral {{ totals_before(
        totals, 'scored_windows.agent_id_hash', 'scored_windows.window_start - ' ~ days(scoring_parameter('steady_days'))
    ) }} as at_before_start
        on true

)

select
    window_sums.agent_id_hash,
    agent_names.agent_name,
    agents.first_traced_at,
    window_sums.as_of,
    window_sums.window_days,
    window_sums.window_start,
    window_sums.baseline_start,
    window_sums.coherence_days,
    {% for name in window_counters() + (window_arrays().keys() | list) %}
    window_sums.{{ name }},
    {% endfor %}
    {% for name in baseline_sums() %}
    window_sums.baseline_{{ name }},
    {% endfor %}
    window_sums.memory_hash,
    window_sums.steady_n_recoveries,
    window_sums.steady_recovery_microseconds,
    window_sums.before_n_recoveries,
    window_sums.before_recovery_microseconds,
    window_sums.before_log_recovery_hours,
    window_sums.before_log_recovery_hours_squared
from window_sums
inner join agents on window_sums.agent_id_hash = agents.agent_id_hash
left join agent_names
    on
        window_sums.agent_id_hash = agent_names.agent_id_hash
        and window_sums.as_of > agent_names.named_from
        and (agent_names.named_until is null or window_sums.as_of <= agent_names.named_until)
