-- At the run's as-of every window sum, rolled from running totals, is what a direct count of the traces in
-- [as_of - window_days, as_of) gives: no window is a day too long, and no agent with a trace in it is missing.
{%- set counters = counted_verdicts().keys() | list + ['n_traces', 'n_fields_present', 'n_signals'] %}
with scoring_windows as (

    select
        windows.window_days,
        run.as_of,
        run.as_of - {{ days('windows.window_days') }} as window_start
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
    inner join {{ ref('int_trace_verdicts') }} as verdicts
        on
            scoring_windows.window_start <= verdicts.traced_at
            and scoring_windows.as_of > verdicts.traced_at
            and verdicts.is_counted
    group by
        verdicts.agent_id_hash,
        scoring_windows.window_days

),

window_sums as (

    select
        sums.*,
        sums.n_signals_corroborated + sums.n_signals_uncorroborated as n_signals
    from {{ ref('int_window_sums') }} as sums
    inner join scoring_windows
        on
            sums.as_of = scoring_windows.as_of
            and sums.window_days = scoring_windows.window_days
            and sums.window_start = scoring_windows.window_start
    where sums.as_of = (select run.as_of from {{ ref('int_scoring_run') }} as run)

)

select
    agent_id_hash,
    window_days,
    direct_sums.n_traces as n_traces_direct,
    window_sums.n_traces as n_traces_summed
from direct_sums
full join window_sums using (agent_id_hash, window_days)
where
    {% for counter in counters %}
    direct_sums.{{ counter }} is distinct from window_sums.{{ counter }}{% if not loop.last %} or{% endif %}
    {% endfor %}
