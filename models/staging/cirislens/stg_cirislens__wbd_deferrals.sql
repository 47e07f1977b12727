{#- Deferrals. Empty if a lens that stores events has no such table. Grain: source row. -#}
{%- set table = source_if_there('wbd_deferrals', source_shape()) -%}
with source as (

    {{ rows_if_there(table, {
      'deferral_id': 'text', 'agent_id': 'text', 'agent_name': 'text', 'status': 'text', 'resolution_summary': 'text',
      'resolved_at': 'timestamptz', 'created_at': 'timestamptz',
    }) }}

)

select
    {{ shorten('deferral_id::text') }} as deferral_id,
    {{ blank_to_null('agent_id::text') }} as agent_id,
    {{ clean_name('agent_name::text') }} as agent_name,
    nullif(left({{ upper_case('btrim(left(status::text, 1000000), ' ~ white_space() ~ ')') }}, 200), '') as status,
    {{ blank_to_null('resolution_summary::text') }} is not null as has_resolution_summary,
    resolved_at::timestamptz as resolved_at,
    created_at::timestamptz as created_at
from source
