{#- Grain: one row of the source. -#}
with source as (

    select
        deferral_id,
        agent_id,
        agent_name,
        status,
        resolution_summary,
        resolved_at,
        created_at
    from {{ source('cirislens', 'wbd_deferrals') }}

),

cleaned as (

    select
        {{ shorten('deferral_id::text') }} as deferral_id,
        {{ blank_to_null('agent_id::text') }} as agent_id,
        {{ clean_name('agent_name::text') }} as agent_name,
        nullif(left(upper(btrim(left(status::text, 1000000), {{ white_space() }})), 200), '') as status,
        {{ blank_to_null('resolution_summary::text') }} is not null as has_resolution_summary,
        resolved_at::timestamptz as resolved_at,
        created_at::timestamptz as created_at
    from source

)

select * from cleaned
