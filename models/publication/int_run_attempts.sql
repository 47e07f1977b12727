{{
  config(
    materialized='replace_range',
    meta={'rewritten': 'nothing'},
    full_refresh=false,
    contract={'enforced': true},
  )
}}
{#- Grain: one row per run. Runs write their rows themselves (macros/checks/run_log.sql), so that refused, failed and
    killed runs are known too; a full refresh keeps them. -#}
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
    null::text as version,
    null::text as state_digest
where false
