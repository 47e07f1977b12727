{{
  config(
    materialized='replace_range',
    meta={'rewritten': 'nothing'},
    full_refresh=false,
    contract={'enforced': true},
    indexes=[{'columns': ['as_of']}, {'columns': ['computed_at']}],
    pre_hook="{{ move_to_its_place(this) }}",
  )
}}
{#- Grain: one row per agent, as-of and window that the Python step has scored. dbt owns the table and its columns,
    `ciris-scoring resilience` its rows; a full refresh keeps them, because each names the inputs it was made from.
    The step needs what the two models below build first. -#}
-- depends_on: {{ ref('int_resilience_inputs') }}
-- depends_on: {{ ref('int_scoring_parameters') }}
select
    null::text as agent_id_hash,
    null::timestamptz as as_of,
    null::integer as window_days,
    null::text as inputs_digest,
    null::double precision as delta_csdma_plausibility_score,
    null::double precision as delta_dsdma_domain_alignment,
    null::double precision as delta_coherence_level,
    null::double precision as delta_drift,
    null::integer as n_measured_metrics,
    null::double precision as r_score,
    null::timestamptz as computed_at
where false
