{{
  config(
    materialized='replace_range',
    post_hook="{{ refuse_rescoring(this) }}",
  )
}}
{#- Settings of the current or last run. All incremental models depend on this model, so one as-of and one cutoff apply
    to the whole run. A refused run leaves the row of the previous run. Grain: one row. -#}
{%- set published = last_publication() or {} -%}
{%- set last = last_run() or {} -%}
{%- if published and not is_full_refresh() and last.get('checking_code') != checking_code() -%}
  {%- do log(
    "The code that checks traces has changed since the last run (models, macros, seeds or the version of this project), or "
    ~ "the definition of the source's columns. The traces of the restatement window are checked again. Older ones keep "
    ~ "their checks, so scores that depend on them may differ from a full refresh: ciris-scoring run --full-refresh --allow-rescoring.", info=true) -%}
{%- endif -%}
with scoring_windows as (

    select
        window_days,
        baseline_days,
        coherence_days
    from {{ ref('scoring_windows') }}

),

horizons as (

    select
        max({{ days('window_days') }}) as longest_window,
        greatest(
            max({{ days('window_days + greatest(baseline_days, coherence_days, ' ~ constant('gap_days', 0) ~ ')') }}),
            {{ days(constant('trace_days', 0)) }}
        ) as longest_horizon
    from scoring_windows

),

moment as (

    select
        {{ as_of() }} as as_of,
        {{ utc_literal(published.get('newest_published_as_of')) }} as newest_published_as_of,
        {{ "'" ~ published['parameter_set_id'] ~ "'" if published else 'null' }}::text as published_parameter_set_id

),

-- Start of the restatement window of an ordinary run.
lookback as (

    select
        case
            when {{ is_full_refresh() | string | lower }} or newest_published_as_of is null then '-infinity'
            else {{ lookback_start('newest_published_as_of', 'as_of') }}
        end as lookback_from
    from moment

),

-- First change in the sources that this run found. If another run has read the sources since, later changes are
-- unknown, and the whole restatement window counts as changed.
first_change as (

    select
        case
            when bool_and(run_id = '{{ build_id() }}') then min(period_start) filter (where is_changed)
            else '-infinity'
        end as changed_from,
        case when bool_and(run_id = '{{ build_id() }}') then min(invocation_id) end as sources_read_by
    from {{ ref('int_source_periods') }}

)

select
    1 as scoring_run_id,
    moment.as_of,
    moment.newest_published_as_of,
    least(lookback.lookback_from, {{ set_back_to('cutoff', last) }}) as cutoff,
    case
        when isfinite(lookback.lookback_from)
            then least(
                greatest(lookback.lookback_from, coalesce(first_change.changed_from, moment.as_of)),
                {{ set_back_to('rechecked_from', last) }}
            )
        else lookback.lookback_from
    end as rechecked_from,
    lookback.lookback_from,
    {{ rescored_from() }} as rescored_from,
    horizons.longest_window,
    horizons.longest_horizon,
    '{{ setting('scoring_period') }}' as scoring_period,
    {{ lookback_periods() }} as lookback_periods,
    {{ parameter_set_id(
        ref('int_scoring_parameters'),
        ref('scoring_windows'),
        ref('capacity_categories'),
        ref('deferral_outcomes')
    ) }} as parameter_set_id,
    moment.published_parameter_set_id,
    {{ utc_literal(published.get('final_until')) }} as final_until,
    {{ is_full_refresh() | string | lower }} as is_full_refresh,
    now() as started_at,
    '{{ checking_code() }}' as checking_code,
    '{{ invocation_id }}' as invocation_id,
    '{{ build_id() }}' as run_id,
    first_change.sources_read_by,
    (select max(events.event_id) from {{ ref('stg_cirislens__trace_events') }} as events) as newest_event_id,
    {{ last.get('newest_event_id') or 'null' }}::bigint as earlier_event_id,
    array[]::text[] as built_nodes,
    array[]::text[] as failed_tests,
    {{ "'" ~ published['run_id'] ~ "'" if published else 'null' }}::uuid as published_before,
    null::uuid as published_by
from moment
cross join lookback
cross join first_change
cross join horizons
