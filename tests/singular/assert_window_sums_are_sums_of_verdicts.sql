{% if is_testable() %}
-- At the run's as-of every window sum, a difference of running totals, equals a direct count of the traces in
-- [as_of - window_days, as_of), and the baseline's number of traces equals a direct sum of the periods. Finds windows
-- that are a day too long and missing agents.
{%- set counters = counted_verdicts().keys() | list + ['n_traces', 'n_fields_present', 'n_signals'] %}
with scoring_windows as (

    select
        windows.window_days,
        run.as_of,
        run.as_of - {{ days('windows.window_days') }} as window_start,
        run.as_of - {{ days('windows.window_days + windows.baseline_days') }} as baseline_start
    from {{ ref('scoring_windows') }} as windows
    cross join {{ ref('int_scoring_run') }} as run
    where run.as_of > run.cutoff

),

direct_sums as (

    select
        verdicts.agent_id_hash,
        scoring_windows.window_days,
        count(*) as n_traces,
        {% for counter, verdict in counted_verdicts().items() %}
        count(*) filter (where verdicts.{{ verdict }}) as {{ counter }},
        {% endfor %}
        sum(verdicts.n_fields_present) as n_fields_present,
        count(*) filter (where verdicts.is_signal) as n_signals
    from scoring_windows
    inner join {{ ref('int_trace_checks') }} as verdicts
        on
            scoring_windows.window_start <= verdicts.traced_at
            and scoring_windows.as_of > verdicts.traced_at
            and verdicts.is_counted
    group by
        verdicts.agent_id_hash,
        scoring_windows.window_days

),

periods as (

    select
        periods.agent_id_hash,
        scoring_windows.window_days,
        scoring_windows.window_start <= periods.period_start as is_in_window,
        periods.n_traces
    from scoring_windows
    inner join {{ ref('int_agent_periods') }} as periods
        on
            scoring_windows.baseline_start <= periods.period_start
            and scoring_windows.as_of > periods.period_start

),

sums_of_periods as (

    select
        agent_id_hash,
        window_days,
        coalesce(sum(n_traces) filter (where not is_in_window), 0) as baseline_n_traces
    from periods
    group by
        agent_id_hash,
        window_days
    having bool_or(is_in_window)

),

window_sums as (

    select
        sums.*,
        sums.n_signals_corroborated + sums.n_signals_uncorroborated as n_signals
    from {{ ref('int_windows') }} as sums
    inner join scoring_windows using (as_of, window_days, window_start)
    where sums.as_of = (select run.as_of from {{ ref('int_scoring_run') }} as run)

)

select
    agent_id_hash,
    window_days,
    rules.rule,
    rules.expected,
    rules.found
from direct_sums
full join sums_of_periods using (agent_id_hash, window_days)
full join window_sums using (agent_id_hash, window_days)
cross join lateral (
    values
    {% for name in counters %}
    ('{{ name }}', direct_sums.{{ name }}::text, window_sums.{{ name }}::text),
    {% endfor %}
    ('baseline_n_traces', sums_of_periods.baseline_n_traces::text, window_sums.baseline_n_traces::text)
) as rules (rule, expected, found)
where rules.expected is distinct from rules.found
{% else %}
{{ untested() }}
{% endif %}
