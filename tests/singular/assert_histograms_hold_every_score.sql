-- Every score of a counted trace is in exactly one bin of int_score_histograms: drift compares these histograms.
with direct_counts as (

    select
        agent_id_hash,
        period_start,
        {% for metric in drift_metrics() %}
        count({{ metric }}) as {{ metric }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('int_trace_verdicts') }}
    where
        {{ in_increment(ref('int_trace_verdicts')) }}
        and is_counted
        and num_nonnulls({{ drift_metrics() | join(', ') }}) > 0
    group by
        agent_id_hash,
        period_start

),

histograms as (

    select
        agent_id_hash,
        period_start,
        {% for metric in drift_metrics() %}
        (select sum(bins.n) from unnest({{ metric }}_histogram) as bins (n)) as {{ metric }}
        {%- if not loop.last %},{% endif %}
        {% endfor %}
    from {{ ref('int_score_histograms') }}
    where {{ in_increment(ref('int_score_histograms')) }}

)

select
    agent_id_hash,
    period_start
from direct_counts
full join histograms using (agent_id_hash, period_start)
where
    {% for metric in drift_metrics() %}
    direct_counts.{{ metric }} is distinct from histograms.{{ metric }}{% if not loop.last %} or{% endif %}
    {% endfor %}
