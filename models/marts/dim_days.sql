{{ config(materialized='replace_range', enabled=var('ciris_time_spine'), meta={'rewritten': 'whole'}) }}
{#- Every day (UTC) from the first that a trace may be dated until the newest as-of: the time spine that MetricFlow
    cannot do without. Waits for the gate. Grain and key: date_day. Nothing is null. -#}
-- depends_on: {{ ref('int_capacity_scores') }}
with scoring_run as (

    select latest_as_of
    from {{ ref('int_scoring_run') }}

)

select calendar.day_start::date as date_day
from scoring_run
cross join lateral generate_series(
    date_trunc('day', ({{ traces_from() }}) at time zone 'UTC'),
    scoring_run.latest_as_of at time zone 'UTC',
    interval '1 day'
) as calendar (day_start)
