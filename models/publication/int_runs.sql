{{
  config(
    materialized='replace_range',
    meta={'range': 'run_id'},
    full_refresh=false,
    pre_hook="{{ publish() }}",
    post_hook=[
      "update {{ ref('int_built') }} set staged_rows = null where staged_rows is not null",
      "{{ declare_foreign_keys() }}",
    ],
  )
}}
{#- Log of runs. dbt writes the row of a run when it starts and when it ends (macros/checks/run_log.sql), so that
    refused, failed and killed runs have a row too. A full refresh keeps all rows. This model is built after the last mart. In
    one transaction it publishes all staged marts and rewrites the row of the run. It is a model and not a hook, so that
    dbt skips it after a failure and `dbt retry` repeats it. Grain and key: run_id. -#}
-- depends_on: {{ ref('fct_capacity_alerts') }}
-- depends_on: {{ ref('fct_fleet_capacity') }}
-- depends_on: {{ ref('fct_fleet_coherence_hourly') }}
-- depends_on: {{ ref('fct_data_quality') }}
-- depends_on: {{ ref('fct_score_certainty') }}
-- depends_on: {{ ref('fct_verdicts') }}
-- depends_on: {{ ref('fct_red_flags') }}
-- depends_on: {{ ref('dim_agents') }}
-- depends_on: {{ ref('dim_capacity_categories') }}
-- depends_on: {{ ref('dim_scoring_parameters') }}
-- depends_on: {{ ref('dim_scoring_windows') }}
with scoring_run as (

    select
        as_of,
        cutoff,
        final_until,
        parameter_set_id,
        is_full_refresh,
        rescored_from
    from {{ ref('int_scoring_run') }}

),

entered as (

    select
        run_id,
        started_at,
        command,
        as_of,
        version
    from {{ this }}
    where run_id = '{{ run_id() }}'

),

-- Rows that this invocation publishes, also if an earlier one has staged them.
staged as (

    select max(staged_rows) as n_scores
    from {{ ref('int_built') }}
    where node = 'fct_capacity_scores'

),

late as (

    select coalesce(sum(n), 0)::bigint as n_late_traces
    from {{ ref('fct_data_quality') }}
    where issue in ('late_trace', 'late_outcome')

),

scores as (

    select max(as_of) as newest_as_of
    from {{ ref('fct_capacity_scores') }}

)

select
    entered.run_id,
    entered.started_at,
    null::timestamptz as ended_at,
    entered.command,
    scoring_run.as_of,
    null::text as outcome,
    null::text as message,
    coalesce(staged.n_scores, 0) as n_scores,
    late.n_late_traces,
    entered.version,
    now() as published_at,
    scoring_run.as_of as published_until,
    scores.newest_as_of,
    case
        when not scoring_run.is_full_refresh
            then greatest(scoring_run.final_until, nullif(scoring_run.cutoff, '-infinity'))
    end as final_until,
    scoring_run.parameter_set_id,
    scoring_run.is_full_refresh,
    scoring_run.rescored_from
from scoring_run
cross join scores
cross join staged
cross join late
left join entered on true
