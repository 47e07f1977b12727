{{ config(fail_calc='coalesce(max(percent_wrong), 0)', warn_if='> 0', error_if='> 1') }}
{%- do use_settings() %}
-- No trace is lost or duplicated: each period that the run checks again has as many rows in int_trace_checks as in the
-- source. The number of results is the percentage of missing source rows, rounded up, or 100 if int_trace_checks has
-- more rows than the source. If at most one percent or ten rows are missing, the number is 1 and the test only warns,
-- because traces may have arrived since the run read the source.
with run as (

    select as_of
    from {{ ref('int_scoring_run') }}

),

source_counts as (

    select
        {{ period_start('traced_at') }} as period_start,
        count(*) as n_source
    from {{ ref('stg_cirislens__covenant_traces') }}
    where
        traced_at >= {{ rechecked_from() }}
        and traced_at >= {{ traces_from() }}
        and traced_at < (select run.as_of from run)
    group by 1

),

check_counts as (

    select
        period_start,
        count(*) as n_checked
    from {{ ref('int_trace_checks') }}
    where
        traced_at >= {{ rechecked_from() }}
        and traced_at < (select run.as_of from run)
    group by period_start

),

compared as (

    select
        period_start,
        coalesce(source_counts.n_source, 0) as n_source,
        coalesce(check_counts.n_checked, 0) as n_checked
    from source_counts
    full join check_counts using (period_start)

),

totals as (

    select
        case
            when bool_or(n_checked > n_source) then 100
            when sum(n_source - n_checked) <= 10 then 1
            else ceil(100.0 * sum(n_source - n_checked) / sum(n_source))
        end as percent_wrong
    from compared

)

select
    compared.period_start,
    compared.n_source,
    compared.n_checked,
    totals.percent_wrong
from compared
cross join totals
where compared.n_source <> compared.n_checked
