{{ config(materialized='ephemeral') }}
{#- Changes of the source after the scores were final (scoring.md §9), with the first and last as-of whose scores they
    would change. late_trace: a trace arrived. late_outcome: a scored trace got another event, such as its first or second
    outcome. It is counted in the period of the scored trace. If the event moves the trace to another time, the trace
    stays scored at its old time only, so that it does not count twice; a rescore would change the scores of both times.
    trace_id_of_two_agents: another agent has used the trace_id since; this does not change a score. Grain: agent (null
    if the row has none), period and issue. -#}
{%- set late_until = bound_of_run('lookback_from') -%}
{%- set late_from = late_from() -%}
-- depends_on: {{ ref('stg_cirislens__event_traces') }}
with scoring_run as (

    select
        as_of,
        longest_horizon
    from {{ ref('int_scoring_run') }}

),

{% if is_trace_one_row() %}
-- Late traces of events, each with the row that is scored in its place, if any.
late_event_traces as (

    select
        coalesce(scored.agent_id_hash, {{ clean_id('present.agent_id_hash') }}) as agent_id_hash,
        present.last_event_at,
        case
            when present."timestamp" >= {{ traces_from() }} then {{ period_start('present."timestamp"') }}
        end as present_period_start,
        scored.period_start,
        scored.agent_id_hash is null as is_unscored,
        scored.is_counted
        and (scored.traced_at <> present."timestamp" or scored.n_events <> present.n_events) as is_changed,
        scored.agent_id_hash <> ''
        and 'trace_id_of_two_agents' = any(present.event_issues)
        and 'trace_id_of_two_agents' <> all(coalesce(scored.repairs, array[]::text[])) as is_shared_since
    from {{ ref('stg_cirislens__event_traces') }} as present
    left join lateral (
        select
            checks.agent_id_hash,
            checks.period_start,
            checks.traced_at,
            checks.n_events,
            checks.is_counted,
            checks.repairs
        from {{ ref('int_trace_checks') }} as checks
        where
            checks.delivery_hash = {{ delivery_hash('present.trace_id', 'null') }}
            and coalesce(checks.trace_id, present.trace_id) = present.trace_id
            and checks.agent_id_hash = coalesce({{ clean_id('present.agent_id_hash') }}, '')
            and checks.traced_at < {{ late_until }}
            and not checks.is_duplicate
        {{ optimization_barrier() }} -- noqa: AM09
    ) as scored on true
    where present.is_late

),

{% else %}
-- Number of source rows minus number of checked rows. Checked rows are counted traces, duplicates, traces of a run kind
-- that is not scored, and rows without an agent.
differences as (

    -- Source rows are counted from an index on agent and time, without reading the table.
    select
        agent_id_hash,
        {{ period_start('traced_at') }} as period_start,
        count(*) as n_more
    from {{ ref('stg_cirislens__covenant_traces') }}
    where
        traced_at >= {{ late_from }}
        and traced_at < {{ late_until }}
        and traced_at >= {{ traces_from() }}
    group by 1, 2

    union all

    select
        agent_id_hash,
        period_start,
        -n_traces as n_more
    from {{ ref('int_agent_periods') }}
    where
        period_start >= {{ late_from }}
        and period_start < {{ late_until }}

    union all

    select
        agent_id_hash,
        period_start,
        -n as n_more
    from {{ ref('int_trace_issues') }}
    where
        issue in ({{ issues_of_uncounted() }})
        and period_start >= {{ late_from }}
        and period_start < {{ late_until }}

    union all

    select
        null::text as agent_id_hash,
        period_start,
        -1 as n_more
    from {{ ref('int_trace_checks') }}
    where
        agent_id_hash = ''
        and traced_at >= {{ late_from }}
        and traced_at < {{ late_until }}

),

{% endif %}
-- Rows of the source that were not checked before the scores became final (scoring.md, section 9).
late_traces as (

    {% if is_trace_one_row() %}
    select
        agent_id_hash,
        present_period_start as period_start,
        count(*) as n
    from late_event_traces
    where
        is_unscored
        and present_period_start >= {{ late_from }}
        and present_period_start < {{ late_until }}
    group by
        agent_id_hash,
        present_period_start
    {% else %}
    select
        agent_id_hash,
        period_start,
        sum(n_more) as n
    from differences
    group by
        agent_id_hash,
        period_start
    having sum(n_more) > 0
    {% endif %}

),

-- Late traces and outcomes, with the first and last period whose sums they would change.
arrivals as (

    select
        agent_id_hash,
        period_start,
        'late_trace' as issue,
        n,
        period_start as first_period_start,
        period_start as last_period_start
    from late_traces
    {% if is_trace_one_row() %}

    union all

    select
        agent_id_hash,
        period_start,
        'late_outcome' as issue,
        count(*) as n,
        least(period_start, min(present_period_start)) as first_period_start,
        greatest(period_start, max(present_period_start)) as last_period_start
    from late_event_traces
    where
        is_changed
        and last_event_at >= {{ late_from }}
    group by
        agent_id_hash,
        period_start
    {% endif %}

)

select
    arrivals.agent_id_hash,
    arrivals.period_start,
    arrivals.issue,
    arrivals.n,
    arrivals.first_period_start + {{ period_length() }} as first_as_of,
    least(arrivals.last_period_start + scoring_run.longest_horizon, scoring_run.as_of) as last_as_of
from arrivals
cross join scoring_run
{% if is_trace_one_row() %}

union all

select
    agent_id_hash,
    period_start,
    'trace_id_of_two_agents' as issue,
    count(*) as n,
    null::timestamptz as first_as_of,
    null::timestamptz as last_as_of
from late_event_traces
where is_shared_since
group by
    agent_id_hash,
    period_start
{% endif %}
