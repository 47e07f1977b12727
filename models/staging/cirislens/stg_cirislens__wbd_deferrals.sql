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
        deferral_id,
        {{ blank_to_null('agent_id') }}::text as agent_id,
        {{ blank_to_null('agent_name') }}::text as agent_name,
        nullif(upper(btrim(status, {{ white_space() }})), '') as status,
        {{ blank_to_null('resolution_summary') }} is not null as has_resolution_summary,
        resolved_at,
        created_at
    from source

)

select * from cleaned
