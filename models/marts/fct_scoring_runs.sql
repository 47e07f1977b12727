{{ config(materialized='replace_view') }}
{#- Runs and their outcome. Grain and key: scoring_run_id. Columns about published rows are null if the run did not
    publish. -#}
select
    run_id::text as scoring_run_id,
    started_at,
    ended_at,
    extract(epoch from ended_at - started_at)::double precision as seconds,
    command,
    as_of,
    coalesce(outcome, 'unfinished') as outcome,
    message,
    n_scores,
    n_late_traces,
    version
from {{ ref('int_runs') }}
