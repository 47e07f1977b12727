{{
  config(
    materialized='replace_range',
    pre_hook="{{ wait_for_run() }}",
    post_hook=["{{ refuse_rescoring(this) }}", "{{ begin_run() }}"],
  )
}}
{#- Settings of the current or last run. All incremental models depend on this model, so one as-of and one cutoff apply
    to the whole run. A run begins when it writes this row, and int_built is emptied with it. A refused run leaves the row
    of the previous run. Grain: one row. -#}
{%- set published = last_publication() or {} -%}
{%- set last = last_run() or {} -%}
{#- Also a run that follows a full refresh that did not end, because it scores everything again. -#}
{%- set is_refreshed = is_full_refresh() or (scores_everything() if published else false) -%}
{#- newest_event_id of the last two published runs. A run that was not published keeps the ids of the run before it. -#}
{%- set published_event_ids = {
  'newest': last.get('newest_event_id' if last.get('has_ended') else 'earlier_event_id'),
  'before': last.get('earlier_event_id' if last.get('has_ended') else 'known_event_id'),
} %}
-- depends_on: {{ ref('int_built') }}
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
            when {{ scores_everything() | string | lower }} then '-infinity'
            else {{ lookback_start('newest_published_as_of', 'as_of') }}
        end as lookback_from
    from moment

)

select
    1 as scoring_run_id,
    moment.as_of,
    moment.newest_published_as_of,
    least(lookback.lookback_from, {{ set_back_to('cutoff', last) }}) as cutoff,
    least(lookback.lookback_from, {{ set_back_to('rechecked_from', last) }}) as rechecked_from,
    lookback.lookback_from,
    {{ rescored_from() }} as rescored_from,
    horizons.longest_window,
    horizons.longest_horizon,
    '{{ setting('scoring_period') }}' as scoring_period,
    {{ lookback_periods() }} as lookback_periods,
    {{ parameter_set_id(
        ref('scoring_windows'),
        ref('capacity_categories'),
        ref('deferral_outcomes')
    ) }} as parameter_set_id,
    moment.published_parameter_set_id,
    {{ utc_literal(published.get('final_until')) }} as final_until,
    {{ is_refreshed | string | lower }} as is_full_refresh,
    now() as started_at,
    '{{ run_id() }}' as run_id,
    (select max(events.event_id) from {{ ref('stg_cirislens__trace_events') }} as events) as newest_event_id,
    {{ published_event_ids.get('newest') or 'null' }}::bigint as earlier_event_id,
    {{ published_event_ids.get('before') or 'null' }}::bigint as known_event_id,
    {{ "'" ~ published['run_id'] ~ "'" if published else 'null' }}::uuid as published_before,
    null::uuid as published_by
from moment
cross join lookback
cross join horizons
