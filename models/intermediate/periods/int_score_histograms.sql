{{
  config(
    materialized='replace_range',
    meta={'judged_range': 'period_start'},
    indexes=[{'columns': ['period_start']}],
    pre_hook="{{ set_for_heavy_work() }}",
  )
}}
{#- Grain: one row per agent and period with any of the three drift metrics. Arrays of ten, one element per bin
    (scoring.md §5). An offset of 0 makes PostgreSQL work each bin out once, not once per use. -#}
with scores as (

    select
        {{ fence_column('scores') }}
        {{ agent_key() }} as agent_id_hash,
        period_start,
        {% for metric in drift_metrics() %}
        {{ score_bin(metric) }} as {{ metric }}_bin{% if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('int_trace_verdicts') }}
    where
        {{ in_judged_range('traced_at') }}
        and is_counted
        and num_nonnulls({{ drift_metrics() | join(', ') }}) > 0
    {{ fence() }} -- noqa: AM09

)

select
    agent_id_hash,
    period_start,
    {% for metric in drift_metrics() %}
    array[
        {% for bin in range(10) %}
        count(*) filter (where {{ metric }}_bin = {{ bin }}){% if not loop.last %},{% endif %}
        {% endfor %}
    ]::integer[] as {{ metric }}_histogram{% if not loop.last %},{% endif %}
    {% endfor %}
from scores
group by
    agent_id_hash,
    period_start
