{{
  config(
    materialized='replace_range',
    meta={'rewritten': 'nothing'},
    full_refresh=false,
    contract={'enforced': true},
    indexes=[{'columns': ['computed_at']}],
    pre_hook="{{ move_to_its_place(this) }}",
  )
}}
{#- Grain: one row per as-of and window whose limits the Python step has computed: what an agent's limits take from the
    fleet. dbt owns the table and its columns, `ciris-scoring resilience` its rows; a full refresh keeps them, because
    each names the inputs it was made from. The step needs what the models below build first. -#}
-- depends_on: {{ ref('int_interval_inputs') }}
-- depends_on: {{ ref('int_agent_periods') }}
-- depends_on: {{ ref('int_scoring_run') }}
select
    null::timestamptz as as_of,
    null::integer as window_days,
    null::text as inputs_digest,
    null::integer as n_agents,
    {% for quantity in quantities_with_correlation() %}
    null::double precision as {{ quantity }}_correlation,
    {% endfor %}
    null::double precision as episode_cv,
    null::double precision as z_worse,
    null::double precision as z_better,
    null::integer as method_version,
    null::timestamptz as computed_at
where false
