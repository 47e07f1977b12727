{{
  config(
    materialized='replace_range',
    meta={'scored_range': 'as_of', 'keeps_views': true},
    indexes=[{'columns': ['as_of', 'window_days']}, {'columns': ['scored_at']}],
  )
}}
{#- Grain: one row per agent, as-of and window. The components of the published scores with their limits, kept behind
    the gate so that a run that fails its tests changes none of them. Written after the scores, so that whoever reads both can tell
    components of an earlier run. -#}
-- depends_on: {{ ref('int_scoring_run') }}
-- depends_on: {{ ref('fct_capacity_scores') }}
with candidates as (

    select
        agent_id_hash,
        as_of,
        window_days,
        {% for component in components() %}
        {{ component }},
        {% endfor %}
        {% for column in component_limit_columns() %}
        {{ column }},
        {% endfor %}
        scored_at
    from {{ ref('int_capacity_scores') }}

)

select
    agent_id_hash,
    as_of,
    window_days,
    {% for component in components() %}
    {{ component }},
    {% endfor %}
    {% for column in component_limit_columns() %}
    {{ column }},
    {% endfor %}
    scored_at
from candidates
