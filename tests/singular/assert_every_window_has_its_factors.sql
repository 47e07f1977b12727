-- Rows in, rows out: every row of int_window_sums has its row in each model that a factor is made of, and is a
-- candidate; none has a row of its own making. A row that one of them lacks would be missing in the marts.
{%- set factors = ['int_core_identity', 'int_integrity', 'int_incompleteness_awareness', 'int_sustained_coherence',
    'int_resilience_inputs', 'int_window_statistics', 'int_capacity_scores'] %}
with window_sums as (

    select
        agent_id_hash,
        as_of,
        window_days,
        true as is_there
    from {{ ref('int_window_sums') }}
    where {{ in_increment(ref('int_window_sums')) }}

)

{% for model in factors %}
select
    '{{ model }}' as factor,
    agent_id_hash,
    as_of,
    window_days
from window_sums
full join (
    select
        agent_id_hash,
        as_of,
        window_days,
        true as is_there
    from {{ ref(model) }}
    where {{ in_increment(ref('int_window_sums')) }}
) as factor_rows using (agent_id_hash, as_of, window_days)
where num_nulls(window_sums.is_there, factor_rows.is_there) > 0
{% if not loop.last %}

union all

{% endif %}
{% endfor %}
