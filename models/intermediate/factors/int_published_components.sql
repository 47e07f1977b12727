{{
  config(
    materialized='incremental',
    incremental_strategy='replace_range',
    on_schema_change='fail',
    meta={'range_column': 'as_of', 'range_opens': '>'},
    indexes=[
      {'columns': ['agent_id_hash', 'window_days', 'as_of']},
      {'columns': ['as_of', 'window_days']},
      {'columns': ['scored_at']},
    ],
    post_hook=["{{ keep_views(this) }}", "{{ update_statistics() }}"],
  )
}}
{#- Grain: one row per agent, as-of and window. The components of the published scores, kept behind the gate so that
    a run that fails its tests changes none of them. Written after the scores, so that whoever reads both can tell
    components of an earlier run. -#}
-- depends_on: {{ ref('fct_capacity_scores') }}
with candidates as (

    select
        capacity_score_id,
        agent_id_hash,
        as_of,
        window_days,
        {% for component in components() %}
        {{ component }},
        {% endfor %}
        scored_at
    from {{ ref('int_capacity_scores') }} as candidates -- noqa: AL05
    {{ where_new_or_rewritten('candidates') }}

)

select
    capacity_score_id as published_components_id,
    agent_id_hash,
    as_of,
    window_days,
    {% for component in components() %}
    {{ component }},
    {% endfor %}
    scored_at
from candidates
