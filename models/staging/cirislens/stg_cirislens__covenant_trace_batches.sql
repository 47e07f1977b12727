{#- Grain: one row of the source. -#}
{%- set types = source_types('covenant_trace_batches') -%}
with source as (

    select
        batch_id,
        batch_timestamp,
        traces_received,
        traces_accepted,
        traces_rejected
    from {{ source('cirislens', 'covenant_trace_batches') }}

),

-- Counts beyond production's integer come from no batch, and a sum of two of them would not fit any whole number.
cleaned as (

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

)

select * from cleaned
