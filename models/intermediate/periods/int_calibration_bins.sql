{{
  config(
    materialized='replace_range',
    meta={'judged_range': 'period_start'},
    indexes=[{'columns': ['period_start']}],
    pre_hook="{{ set_for_heavy_work() }}",
  )
}}
{#- Grain: one row per agent and period with a trace that has a plausibility score and an outcome. Arrays of ten, one
    element per confidence bin (scoring.md §6, ECE). An offset of 0 makes PostgreSQL work each bin out once, not once
    per use. -#}
with judged as (

    select
        {{ fence_column('judged') }}
        {{ agent_key() }} as agent_id_hash,
        period_start,
        csdma_plausibility_score as confidence,
        action_success,
        {{ score_bin('csdma_plausibility_score') }} as bin
    from {{ ref('int_trace_verdicts') }}
    where
        {{ in_judged_range('traced_at') }}
        and is_counted
        and csdma_plausibility_score is not null
        and action_success is not null
    {{ fence() }} -- noqa: AM09

)

select
    agent_id_hash,
    period_start,
    count(*)::integer as n_judged,
    array[
        {% for bin in range(10) %}
        count(*) filter (where bin = {{ bin }}){% if not loop.last %},{% endif %}
        {% endfor %}
    ]::integer[] as n_traces,
    array[
        {% for bin in range(10) %}
        coalesce(sum(confidence) filter (where bin = {{ bin }}), 0){% if not loop.last %},{% endif %}
        {% endfor %}
    ] as sum_confidence,
    array[
        {% for bin in range(10) %}
        count(*) filter (where bin = {{ bin }} and action_success){% if not loop.last %},{% endif %}
        {% endfor %}
    ]::integer[] as n_successes
from judged
group by
    agent_id_hash,
    period_start
