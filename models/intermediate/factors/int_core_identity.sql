{{ config(meta={'range_column': 'as_of', 'range_opens': '>'}) }}
{#- Grain: one row per agent, as-of and window (section 3), and who the agent was at the as-of. -#}
with window_sums as (

    select
        window_sums_id,
        agent_id_hash,
        agent_name,
        first_traced_at,
        as_of,
        window_days,
        window_start,
        n_traces,
        {{ rate('n_identity_changes', 'n_traces') }} as d_identity,
        {{ rate('n_overridden', 'n_traces') }} as k_contradiction,
        {{ rate('n_conscience_failed', 'n_traces') }} as conscience_failure_rate
    from {{ ref('int_window_sums') }}

)

select
    window_sums_id as core_identity_id,
    agent_id_hash,
    agent_name,
    first_traced_at,
    as_of,
    window_days,
    window_start,
    n_traces::integer as n_traces,
    d_identity,
    k_contradiction,
    conscience_failure_rate,
    {{ core_identity('d_identity', 'k_contradiction') }} as c_score
from window_sums
