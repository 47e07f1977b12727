-- At the run's as-of the histograms that the Python step compares are what a direct sum of the periods' histograms
-- over the scoring window and over the baseline window before it gives, bin by bin.
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

inputs as (

    select
        resilience_inputs.*,
        scoring_windows.window_start,
        scoring_windows.baseline_start
    from {{ ref('int_resilience_inputs') }} as resilience_inputs
    inner join scoring_windows
        on
            resilience_inputs.as_of = scoring_windows.as_of
            and resilience_inputs.window_days = scoring_windows.window_days
    where resilience_inputs.as_of = (select run.as_of from {{ ref('int_scoring_run') }} as run)

),

direct_sums as (

    select
        inputs.agent_id_hash,
        inputs.window_days,
        {% for metric in drift_metrics() %}
        array[
            {% for bin in range(1, 11) %}
            coalesce(
                sum({{ metric }}_histogram[{{ bin }}]) filter (where histograms.period_start >= inputs.window_start), 0
            )
            {%- if not loop.last %},{% endif %}
            {% endfor %}
        ]::integer[] as {{ metric }}_recent,
        array[
            {% for bin in range(1, 11) %}
            coalesce(
                sum({{ metric }}_histogram[{{ bin }}]) filter (where histograms.period_start < inputs.window_start), 0
            )
            {%- if not loop.last %},{% endif %}
            {% endfor %}
        ]::integer[] as {{ metric }}_baseline{% if not loop.last %},{% endif %}
        {% endfor %}
    from inputs
    left join {{ ref('int_agent_periods') }} as histograms
        on
            inputs.agent_id_hash = histograms.agent_id_hash
            and inputs.baseline_start <= histograms.period_start
            and inputs.as_of > histograms.period_start
    group by
        inputs.agent_id_hash,
        inputs.window_days

)

select
    agent_id_hash,
    window_days
from direct_sums
inner join inputs using (agent_id_hash, window_days)
where
    {% for metric in drift_metrics() %}
    direct_sums.{{ metric }}_recent <> inputs.{{ metric }}_recent
    or direct_sums.{{ metric }}_baseline <> inputs.{{ metric }}_baseline{% if not loop.last %} or{% endif %}
    {% endfor %}
