{{ config(fail_calc='coalesce(sum(n_vanished), 0)', warn_if='> 0', error_if='< 0') }}
{%- do use_settings() %}
{#- The counts of the last run: int_agent_periods is built after this test. -#}
{%- set agent_periods = relation_as_left('int_agent_periods') if is_incremental_run() else none -%}
-- Of the traces of the restatement window that the last run counted (scoring.md, section 9), those that the source no
-- longer has: traces that an agent has less in a period than before. More than ciris_vanished_share of all stop the run
-- with a message. Fewer are a warning; the number of results is the number of traces.
{% set vanished %}
with run as (

    select
        lookback_from,
        newest_published_as_of
    from {{ ref('int_scoring_run') }}

),

counted as (

    {% if agent_periods %}
    select
        agent_periods.agent_id_hash,
        agent_periods.period_start,
        agent_periods.n_traces as n_counted
    from {{ agent_periods }} as agent_periods
    cross join run
    where
        agent_periods.period_start >= run.lookback_from
        and agent_periods.period_start < run.newest_published_as_of
    {% else %}
    select
        null::text as agent_id_hash,
        null::timestamptz as period_start,
        null::bigint as n_counted
    where false
    {% endif %}

),

found as (

    select
        checks.agent_id_hash,
        checks.period_start,
        count(*) as n_found
    from {{ ref('int_trace_checks') }} as checks
    cross join run
    where
        checks.is_counted
        and checks.traced_at >= run.lookback_from
        and checks.traced_at < run.newest_published_as_of
    group by
        checks.agent_id_hash,
        checks.period_start

)

select
    counted.period_start,
    sum(counted.n_counted)::bigint as n_counted,
    sum(greatest(counted.n_counted - coalesce(found.n_found, 0), 0))::bigint as n_vanished
from counted
left join found
    on
        counted.agent_id_hash = found.agent_id_hash
        and counted.period_start = found.period_start
group by counted.period_start
{% endset %}
{%- if agent_periods -%} {%- do refuse_vanished_traces(run_query(vanished)) -%} {%- endif -%}
{{ vanished }}
