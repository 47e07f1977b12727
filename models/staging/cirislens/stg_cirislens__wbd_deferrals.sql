{#- Deferrals. Empty if a lens that stores events has no such table. Grain: source row. -#}
{%- set table = source_if_there('wbd_deferrals', source_shape()) -%}
with source as (

    {% if table %}
    select
        deferral_id,
        agent_id,
        agent_name,
        status,
        resolution_summary,
        resolved_at,
        created_at
    from {{ table }}
    {% else %}
    select
        null::text as deferral_id,
        null::text as agent_id,
        null::text as agent_name,
        null::text as status,
        null::text as resolution_summary,
        null::timestamptz as resolved_at,
        null::timestamptz as created_at
    where false
    {% endif %}

),

cleaned as (

    select
        {{ shorten('deferral_id::text') }} as deferral_id,
        {{ blank_to_null('agent_id::text') }} as agent_id,
        {{ clean_name('agent_name::text') }} as agent_name,
        nullif(left({{ upper_case('btrim(left(status::text, 1000000), ' ~ white_space() ~ ')') }}, 200), '') as status,
        {{ blank_to_null('resolution_summary::text') }} is not null as has_resolution_summary,
        resolved_at::timestamptz as resolved_at,
        created_at::timestamptz as created_at
    from source

)

select * from cleaned
