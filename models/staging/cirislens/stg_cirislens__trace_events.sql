{#- Events that belong to a trace, without payloads. Without CTEs, so that PostgreSQL merges the view into the query
    that reads it and filters reach the source's indexes. Grain: source row. Empty if the source holds whole traces. -#}
{%- set events = source_if_there('trace_events', source_shape()) -%}
{%- if events is none -%}
select
    null::bigint as event_id,
    null::text as agent_id_hash,
    null::text as trace_id,
    null::text as event_type,
    null::integer as attempt_index,
    null::timestamptz as ts
where false
{%- else -%}
select
    event_id,
    agent_id_hash,
    trace_id,
    event_type,
    attempt_index,
    ts
from {{ events }} as part
where {{ is_part_of_trace('part') }}
{%- endif %}
