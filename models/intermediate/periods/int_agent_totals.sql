{{
  config(
    materialized='replace_range',
    meta={'judged_range': 'period_start', 'carried_on': true},
    indexes=[{'columns': ['period_start']}],
    pre_hook="{{ set_for_heavy_work() }}",
  )
}}
{#- An agent's sums from its first trace to the end of each period: any window is the difference of two rows. A run
    carries totals on from before what it judges up to the newest period, since later totals build on earlier ones.
    Grain and key: agent and period with a counted trace. Nothing is null. -#}
with periods as (

    select
        agent_id_hash,
        period_start,
        {% for counter in window_counters() + ['sums_hash'] %}
        {{ counter }},
        {% endfor %}
        {% for name, places in window_arrays().items() if name != 'excess_confidence' %}
        {{ name }},
        {% endfor %}
        {{ array_of_each(score_bins(), 'confidence_by_bin[$i] - successes_by_bin[$i]') }} as excess_confidence
    from {{ ref('int_agent_periods') }}
    where period_start >= {{ rejudged_from() }}

),

{% if is_incremental() %}
totals_before as (

    select earlier.*
    from {{ agents_in('periods') }} as agents
    cross join lateral {{ totals_before(this, 'agents.agent_id_hash', rejudged_from()) }} as earlier

),
{% endif %}

totals as (

    select
        periods.agent_id_hash,
        periods.period_start,
        {% for counter in window_counters() + ['sums_hash'] %}
        {{ 'coalesce(totals_before.' ~ counter ~ ', 0) + ' if is_incremental() }}
        coalesce(sum(periods.{{ counter }}) over so_far, 0) as {{ counter }},
        {% endfor %}
        {% for name, places in window_arrays().items() %}
        {%- set before = 'coalesce(totals_before.' ~ name ~ '[$i], 0) + ' if is_incremental() else '' %}
        {{ array_of_each(places, before ~ 'sum(periods.' ~ name ~ '[$i]) over so_far') }}
        as {{ name }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from periods
    {% if is_incremental() %}
    left join totals_before on periods.agent_id_hash = totals_before.agent_id_hash
    {% endif %}
    window so_far as (
        partition by periods.agent_id_hash
        order by periods.period_start
        rows between unbounded preceding and current row
    )

)

select
    agent_id_hash,
    period_start,
    {% for name in window_counters() + (window_arrays().keys() | list) %}
    {{ name }},
    {% endfor %}
    sums_hash
from totals
order by period_start
