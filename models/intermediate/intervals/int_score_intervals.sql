{{ config(meta={'scored_range': 'as_of'}) }}
{#- The limits that the Python step made from the inputs that stand now (certainty.md §3), as it made them: joined
    by their digest. Grain and key: agent, as-of, window; a row still waiting for the step is not here, and so in no
    mart. The score's limits and interval_driver are null where the score is; mttr_hours, q_deferral and what is unmeasured
    have no design effect. -#}
with inputs as (

    select
        as_of,
        window_days,
        inputs_digest
    from {{ ref('int_interval_inputs') }}

),

limits as (

    select
        agent_id_hash,
        as_of,
        window_days,
        inputs_digest,
        {% for score in scores_with_limits() %}
        {{ score }}_low,
        {{ score }}_high,
        {% endfor %}
        {% for column in component_limit_columns() %}
        {{ column }},
        {% endfor %}
        interval_driver
    from {{ ref('int_score_limits') }}

)

select
    limits.agent_id_hash,
    limits.as_of,
    limits.window_days,
    {% for score in scores_with_limits() %}
    limits.{{ score }}_low,
    limits.{{ score }}_high,
    {% endfor %}
    {% for column in component_limit_columns() %}
    limits.{{ column }},
    {% endfor %}
    limits.interval_driver
from inputs
inner join limits using (as_of, window_days, inputs_digest)
