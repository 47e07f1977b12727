{{ config(materialized='replace_range') }}
{#- Periods of the restatement window, and whether their source rows changed since the last complete run. Unchanged
    periods are not checked again (scoring.md §9). Sources are read before any check, so that rows which arrive during
    the run count as a change in the next run. Grain and key: period. Periods without traces are included, because all
    their traces may have been deleted. row_versions is null if the source is a view or a foreign table. -#}
{%- set published = last_publication() or {} -%}
{%- set last = last_run() or {} -%}
{%- set last_read = relation_as_left('int_source_periods') -%}
with bounds as (

    select
        {{ lookback_start(
            utc_literal(published['newest_published_as_of']) if published else as_of(), as_of()
        ) }} as lookback_from

),

periods as (

    select {{ nth_period('bounds.lookback_from', 'period.n') }} as period_start
    from bounds
    cross join lateral {{ each_period('bounds.lookback_from', as_of() ~ ' - ' ~ period_length()) }} as period (n)

),

source_rows as (

    select
        {{ period_start('traced_at') }} as period_start,
        count(*) as n_traces,
        case when count(row_version) = count(*) then sum(row_version) end as row_versions
    from {{ ref('stg_cirislens__covenant_traces') }}
    where
        traced_at >= (select bounds.lookback_from from bounds)
        and traced_at < {{ as_of() }}
        and traced_at >= {{ traces_from() }}
    group by 1

),

source_periods as (

    select
        periods.period_start,
        coalesce(source_rows.n_traces, 0) as n_traces,
        case when source_rows.period_start is null then 0 else source_rows.row_versions end as row_versions
    from periods
    left join source_rows on periods.period_start = source_rows.period_start

),

-- Digest of the key registry and the code. The checks of traces depend on both.
checkers as (

    select
        md5(
            coalesce(string_agg(
                concat_ws('|', key_id, extract(epoch from revoked_at), '-', extract(epoch from expires_at)),
                E'\n' order by key_id collate "C", revoked_at, expires_at
            ), '')
            || '{{ checking_code() }}'
        ) as checked_with
    from {{ ref('stg_cirislens__covenant_public_keys') }}

),

-- State of the sources that the last run read. It is used only if that run finished; otherwise the tables may be in any
-- state. A full refresh does not use it, because it checks everything.
checked_before as (

    {% if last_read is not none and last.get('has_ended') and not is_full_refresh() %}
    select
        period_start,
        n_traces,
        row_versions,
        checked_with
    from {{ last_read }}
    where
        invocation_id = '{{ last["sources_read_by"] }}'
        and period_start >= (select bounds.lookback_from from bounds)
    {% else %}
    select
        null::timestamptz as period_start,
        null::bigint as n_traces,
        null::numeric as row_versions,
        null::text as checked_with
    where false
    {% endif %}

)

select
    source_periods.period_start,
    source_periods.n_traces,
    source_periods.row_versions,
    checkers.checked_with,
    (
        source_periods.n_traces = checked_before.n_traces
        and source_periods.row_versions = checked_before.row_versions
        and checkers.checked_with = checked_before.checked_with
    ) is not true as is_changed,
    '{{ invocation_id }}' as invocation_id,
    '{{ build_id() }}' as run_id
from source_periods
left join checked_before on source_periods.period_start = checked_before.period_start
cross join checkers
