{{
  config(
    materialized='replace_range',
    meta={'rewritten': 'nothing'},
    full_refresh=false,
    contract={'enforced': true},
    indexes=[{'columns': ['as_of', 'window_days']}],
    pre_hook="{{ move_to_its_place(this) }}",
  )
}}
{#- Grain: one row per agent, as-of and window whose limits the Python step has computed. Like
    int_interval_fleet_values, whose digest it shares. -#}
-- depends_on: {{ ref('int_interval_fleet_values') }}
select
    null::text as agent_id_hash,
    null::timestamptz as as_of,
    null::integer as window_days,
    null::text as inputs_digest,
    {% for score in scores_with_limits() %}
    null::double precision as {{ score }}_low,
    null::double precision as {{ score }}_high,
    {% endfor %}
    {% for column in component_limit_columns() %}
    null::double precision as {{ column }},
    {% endfor %}
    null::text as interval_driver,
    null::timestamptz as computed_at
where false
