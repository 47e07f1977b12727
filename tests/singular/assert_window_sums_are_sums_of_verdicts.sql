-- At the run's as-of every sum over a window, a difference of running totals, is what a direct count of the traces
-- in [as_of - window_days, as_of) gives, and those of the baseline what a count of the days before it gives,
-- histograms bin by bin: no window is a day too long, and no agent with a trace in it is missing.
{%- set counters = counted_verdicts().keys() | list + ['n_traces', 'n_fields_present', 'n_signals',
    'baseline_n_traces'] %}
{%- set histograms = [] %}
{%- for metric in drift_metrics() %}
{%- do histograms.extend([metric ~ '_histogram', 'baseline_' ~ metric ~ '_histogram']) %}
{%- endfor %}
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

verdicts as (

    select
        verdicts.agent_id_hash,
        scoring_windows.window_days,
        scoring_windows.window_start <= verdicts.traced_at as is_in_window,
        verdicts.is_signal,
        verdicts.n_fields_present,
        {% for metric in drift_metrics() %}
        case
            when verdicts.{{ metric }} is not null then least(floor(verdicts.{{ metric }} * 10), 9) + 1
        end as {{ metric }}_bin,
        {% endfor %}
        {% for verdict in counted_verdicts().values() %}
        verdicts.{{ verdict }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from scoring_windows
    inner join {{ ref('int_trace_verdicts') }} as verdicts
        on
            scoring_windows.baseline_start <= verdicts.traced_at
            and scoring_windows.as_of > verdicts.traced_at
            and verdicts.is_counted

),

direct_sums as (

    select
        agent_id_hash,
        window_days,
        {% for counter, verdict in counted_verdicts().items() %}
        count(*) filter (where is_in_window and {{ verdict }}) as {{ counter }},
        {% endfor %}
        {% for metric in drift_metrics() %}
        {% set n = 'count(*) filter (where is_in_window and ' ~ metric ~ '_bin = $i)' %}
        {{ array_of_each(10, n) }}::integer[] as {{ metric }}_histogram,
        {{ array_of_each(10, n | replace('is_in', 'not is_in')) }}::integer[] as baseline_{{ metric }}_histogram,
        {% endfor %}
        sum(n_fields_present) filter (where is_in_window) as n_fields_present,
        count(*) filter (where is_in_window and is_signal) as n_signals,
        count(*) filter (where is_in_window) as n_traces,
        count(*) filter (where not is_in_window) as baseline_n_traces
    from verdicts
    group by
        agent_id_hash,
        window_days
    having bool_or(is_in_window)

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
    rules.rule,
    rules.expected,
    rules.found
from direct_sums
full join window_sums using (agent_id_hash, window_days)
cross join lateral (
    values
    {% for name in counters + histograms %}
    ('{{ name }}', direct_sums.{{ name }}::text, window_sums.{{ name }}::text){% if not loop.last %},{% endif %}
    {% endfor %}
) as rules (rule, expected, found)
where rules.expected is distinct from rules.found
