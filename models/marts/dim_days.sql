{{ config(materialized='replace_view', enabled=valid_setting('time_spine')) }}
{#- Days (UTC) from ciris_traces_from to the last published as-of, the time spine that MetricFlow requires. Grain and
    key: date_day, never null. -#}
with published as (

    select max(published_until) as published_until
    from {{ ref('int_runs') }}

)

select calendar.day_start::date as date_day
from published
cross join lateral generate_series(
    date_trunc('day', ({{ traces_from() }}) at time zone 'UTC'),
    published.published_until at time zone 'UTC',
    interval '1 day'
) as calendar (day_start)
