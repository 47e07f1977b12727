{{
  config(
    materialized='replace_range',
    meta={'rewritten': 'nothing'},
    full_refresh=false,
    contract={'enforced': true},
  )
}}
{#- Grain: one row per command of ciris-scoring that set out to publish. dbt owns the table and its columns,
    `ciris-scoring` its rows, so that what was refused, failed or was killed is known too; a full refresh keeps them. -#}
select
    null::uuid as run_attempt_id,
    null::timestamptz as started_at,
    null::timestamptz as ended_at,
    null::text as command,
    null::timestamptz as as_of,
    null::text as outcome,
    null::integer as exit_code,
    null::text as message,
    null::text as remedy,
    null::bigint as n_scores,
    null::bigint as n_late_traces,
    null::double precision as first_half_seconds,
    null::double precision as steps_seconds,
    null::double precision as second_half_seconds,
    null::text as version,
    null::text as state_digest
where false
