{{
  config(
    materialized='replace_range',
    meta={'rewritten': 'appended'},
    full_refresh=false,
    contract={'enforced': true},
  )
}}
{#- Grain: one row per run that built all its marts: up to when scores are final, with which parameters, and rescores.
    Built last, so that after a run that died the next starts from where the last whole one ended. -#}
-- depends_on: {{ ref('fct_capacity_alerts') }}
-- depends_on: {{ ref('fct_fleet_capacity') }}
-- depends_on: {{ ref('fct_fleet_coherence_hourly') }}
-- depends_on: {{ ref('fct_data_quality') }}
-- depends_on: {{ ref('fct_interval_calibration') }}
-- depends_on: {{ ref('fct_record_signs') }}
with scoring_run as (

    select
        as_of,
        latest_as_of,
        cutoff,
        parameter_set_id,
        is_full_refresh,
        backfill_first,
        backfill_last,
        backfill_until
    from {{ ref('int_scoring_run') }}

),

scores as (

    select max(as_of) as newest_as_of
    from {{ ref('fct_capacity_scores') }}

)

select
    now() as published_at,
    scoring_run.latest_as_of as run_as_of,
    scores.newest_as_of,
    nullif(scoring_run.cutoff, '-infinity') as cutoff,
    scoring_run.parameter_set_id,
    scoring_run.is_full_refresh,
    scoring_run.backfill_first,
    scoring_run.backfill_last,
    scoring_run.backfill_until,
    case when scoring_run.backfill_first is not null then scoring_run.as_of end as backfill_reached
from scoring_run
cross join scores
