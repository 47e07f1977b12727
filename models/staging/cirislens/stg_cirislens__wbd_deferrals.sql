{#- Deferrals. Empty if a lens that stores events has no such table. Grain: source row. -#}
with source as (

    {{ rows_if_there(source_if_there('wbd_deferrals', source_shape()), {
      'deferral_id': 'text', 'agent_id': 'text', 'agent_name': 'text', 'status': 'text', 'resolution_summary': 'text',
      'resolved_at': 'timestamptz', 'created_at': 'timestamptz',
    }) }}

)

select
    -- ids
    {{ shorten('deferral_id::text') }} as deferral_id,
    {{ clean_text('agent_id') }} as agent_id,
    {{ clean_name('agent_name') }} as agent_name,

    -- answer of the authority
    {{ clean_word('status') }} as status,
    {{ clean_text('resolution_summary') }} is not null as has_resolution_summary,

    -- times
    resolved_at::timestamptz as resolved_at,
    created_at::timestamptz as created_at
from source
