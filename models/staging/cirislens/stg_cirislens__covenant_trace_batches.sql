{#- Ingested batches. Empty if a lens that stores events has no such table. Grain: source row. -#}
{%- set types = source_types('covenant_trace_batches') -%}
{%- set table = source_if_there('covenant_trace_batches', source_shape()) -%}
with source as (

    {{ rows_if_there(table, {
      'batch_id': 'text', 'batch_timestamp': 'timestamptz',
      'traces_received': 'integer', 'traces_accepted': 'integer', 'traces_rejected': 'integer',
    }) }}

)

-- Counts above production's integer range cannot come from a batch, and their sums could overflow.
select
    {{ shorten('batch_id::text') }} as batch_id,
    batch_timestamp::timestamptz as batch_timestamp,
    {% for column in batch_counts() %}
    {% set count = clean_whole_number(column, types.get(column, {}), 0, 2147483647) -%}
    {{ count }} as {{ column }},
    {{ column }} is not null and {{ count }} is null as is_out_of_range_{{ column }}
    {%- if not loop.last %},{% endif %}
    {% endfor %}
from source
