{#- The rows of every factor (scoring.md §1): as-ofs T that this run scores, those after the cutoff, and windows [T - W,
    T) that hold a trace. Grain and key: agent, as-of, window. Nothing is null. -#}
with scoring_run as (

    select cutoff
    from {{ ref('int_scoring_run') }}

),

spine as (

    select
        agent_id_hash,
        as_of,
        last_traced_period_start
    from {{ ref('int_agent_spine') }}

),

scoring_windows as (

    select
        window_days,
        baseline_days,
        coherence_days
    from {{ ref('scoring_windows') }}

)

select
    spine.agent_id_hash,
    spine.as_of,
    scoring_windows.window_days,
    spine.as_of - {{ days('scoring_windows.window_days') }} as window_start,
    spine.as_of - {{ days('scoring_windows.window_days + scoring_windows.baseline_days') }} as baseline_start,
    scoring_windows.coherence_days
from spine
cross join scoring_windows
cross join scoring_run
where
    spine.as_of > scoring_run.cutoff
    and spine.last_traced_period_start >= spine.as_of - {{ days('scoring_windows.window_days') }}
