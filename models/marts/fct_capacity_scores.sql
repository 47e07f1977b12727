{{
  config(
    materialized='incremental',
    meta={'scored_range': 'as_of'},
    indexes=[
      {'columns': ['agent_id_hash', 'window_days', 'as_of'], 'unique': true},
      {'columns': ['as_of', 'window_days']},
      {'columns': ['scored_at']},
    ],
    post_hook="{{ keep_views(this) }}",
  )
}}
{#- Grain: one row per agent, as-of and window. The candidates that passed every blocking test. -#}
with candidates as (

    select
        {% for column in capacity_score_columns() %}
        {{ column }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('int_capacity_scores') }} as candidates -- noqa: AL05
    {{ where_new_or_rewritten('candidates') }}

)

select
    {% for column in capacity_score_columns() %}
    {{ column }}{% if not loop.last %},{% endif %}
    {% endfor %}
from candidates
