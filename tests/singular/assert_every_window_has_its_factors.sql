-- Rows in, rows out: every row of int_window_sums has its row in each model that a factor is made of, and no factor
-- has a row of its own making. A row that one of them lacks would be missing in the marts.
{%- set factors = {
    'int_core_identity': 'core_identity_id',
    'int_integrity': 'integrity_id',
    'int_incompleteness_awareness': 'incompleteness_awareness_id',
    'int_sustained_coherence': 'sustained_coherence_id',
    'int_resilience_inputs': 'resilience_inputs_id',
  } %}
with window_sums as (

    select window_sums_id
    from {{ ref('int_window_sums') }}
    where {{ in_increment(ref('int_window_sums')) }}

)

{% for model, key in factors.items() %}
select
    '{{ model }}' as factor,
    window_sums.window_sums_id as missing,
    factor_rows.{{ key }} as surplus
from window_sums
full join (
    select {{ key }}
    from {{ ref(model) }}
    where {{ in_increment(ref(model)) }}
) as factor_rows
    on window_sums.window_sums_id = factor_rows.{{ key }}
where
    window_sums.window_sums_id is null
    or factor_rows.{{ key }} is null
{% if not loop.last %}

union all

{% endif %}
{% endfor %}
