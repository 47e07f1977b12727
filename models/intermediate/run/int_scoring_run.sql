{{
  config(
    materialized='replace_range',
    post_hook="{{ refuse_rescoring(this) }}",
  )
}}
{#- Settings of the current or last run. All incremental models depend on this model, so one as-of and one cutoff apply
    to the whole run. A refused run leaves the row of the previous run. Grain: one row. -#}
{%- set published = last_publication() or {} -%}
{%- set newest = utc_literal(published.get('newest_published_as_of')) -%}
{%- set published_until = utc_literal(published.get('published_until')) -%}
{#- Start of the restatement window of an ordinary run. -#}
{%- set lookback_from = '(' ~ lookback_start(newest, as_of()) ~ ')' if published and not is_full_refresh()
    else "timestamptz '-infinity'" -%}
{%- set backfill = setting('backfill') -%}
{%- set last = last_run() or {} -%}
{#- If the last run did not finish, this run begins at the cutoff of that run or earlier. -#}
{%- set begun = last if published and not (last.get('has_ended') or last.get('backfill_first')) else {} -%}
{%- if published and not is_full_refresh() and backfill is none and last.get('checking_code') != checking_code() -%}
  {%- do log(
    "The code that checks traces has changed since the last run (models, macros, seeds or the version of this project). The "
    ~ "traces of the restatement window are checked again. Older ones keep their checks, so scores that depend on them may "
    ~ "differ from a full refresh: ciris-scoring run --full-refresh --allow-rescoring.", info=true) -%}
{%- endif -%}
with memory as (

    select
        max({{ days('window_days') }}) as longest_window,
        greatest(
            max({{ days('window_days + greatest(baseline_days, coherence_days)') }}),
            {{ days(constant('trace_days', 0)) }}
        ) as longest_horizon
    from {{ ref('scoring_windows') }}

),

-- If another run has read the sources, later changes in them are unknown, and the whole restatement window counts as
-- changed.
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
    {{ as_of() }} as as_of,
    {{ newest }} as newest_published_as_of,
    {% if backfill is none %}
    least({{ lookback_from }}, {{ utc_literal(begun.get('cutoff')) }}) as cutoff,
    case
        when isfinite({{ lookback_from }})
            then least(
                greatest({{ lookback_from }}, coalesce(first_change.changed_from, {{ as_of() }})),
                {{ utc_literal(begun.get('rechecked_from')) }}
            )
        else {{ lookback_from }}
    end as rechecked_from,
    {{ lookback_from }} as lookback_from,
    {% else %}
    '{{ backfill["cutoff"] }}'::timestamptz as cutoff,
    '{{ backfill["rechecked_from"] }}'::timestamptz as rechecked_from,
    coalesce({{ published_until }} - {{ lookback_periods() }} * {{ period_length() }}, '-infinity') as lookback_from,
    {% endif %}
    {% if is_full_refresh() and backfill is none %}
    {{ as_of() }} as latest_as_of,
    {% else %}
    greatest({{ as_of() }}, {{ published_until }}) as latest_as_of,
    {% endif %}
    {% for bound in ['first', 'last', 'until'] %}
    {{ 'null' if backfill is none else "'" ~ backfill[bound] ~ "'" }}::timestamptz as backfill_{{ bound }},
    {% endfor %}
    memory.longest_window,
    memory.longest_horizon,
    '{{ setting('scoring_period') }}' as scoring_period,
    {{ lookback_periods() }} as lookback_periods,
    {{ parameter_set_id(
        ref('int_scoring_parameters'),
        ref('scoring_windows'),
        ref('capacity_categories'),
        ref('deferral_outcomes')
    ) }} as parameter_set_id,
    {{ "'" ~ published['parameter_set_id'] ~ "'" if published else 'null' }}::text as published_parameter_set_id,
    {{ utc_literal(published.get('final_until')) }} as final_until,
    {{ (is_full_refresh() and backfill is none) | string | lower }} as is_full_refresh,
    now() as started_at,
    '{{ checking_code() }}' as checking_code,
    '{{ invocation_id }}' as invocation_id,
    '{{ build_id() }}' as run_id,
    first_change.sources_read_by,
    (select max(events.event_id) from {{ ref('stg_cirislens__trace_events') }} as events) as newest_event_id,
    {{ last.get('newest_event_id') or 'null' }}::bigint as earlier_event_id,
    array[]::text[] as built_nodes,
    array[]::text[] as failed_tests
from first_change
cross join memory
