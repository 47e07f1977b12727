{#- Ingested batches. Empty if a lens that stores events has no such table. Grain: source row. -#}
with source as (

    {{ rows_if_there(source_if_there('covenant_trace_batches', source_shape()), {
      'batch_id': 'text', 'batch_timestamp': 'timestamptz',
      'traces_received': 'integer', 'traces_accepted': 'integer', 'traces_rejected': 'integer',
    }) }}

),

cleaned as (

    -- Counts above production's integer range cannot come from a batch, and their sums could overflow.
    select
        *,
        {{ clean_whole_number('traces_received', 0, 2147483647) }} as n_received,
        {{ clean_whole_number('traces_accepted', 0, 2147483647) }} as n_accepted,
        {{ clean_whole_number('traces_rejected', 0, 2147483647) }} as n_rejected
    from source

)

select
    {{ shorten('batch_id::text') }} as batch_id,
    batch_timestamp::timestamptz as batch_timestamp,
    n_received as traces_received,
    traces_received is not null and n_received is null as is_out_of_range_traces_received,
    n_accepted as traces_accepted,
    traces_accepted is not null and n_accepted is null as is_out_of_range_traces_accepted,
    n_rejected as traces_rejected,
    traces_rejected is not null and n_rejected is null as is_out_of_range_traces_rejected
from cleaned
