{#- Grain: one row of the source. -#}
with source as (

    select
        batch_id,
        batch_timestamp,
        traces_received,
        traces_accepted,
        traces_rejected
    from {{ source('cirislens', 'covenant_trace_batches') }}

)

select * from source
