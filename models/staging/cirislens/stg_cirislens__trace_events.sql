{#- Events that belong to a trace, with its LLM_CALLs, without payloads. The view has no CTEs, so PostgreSQL merges it
    into the query that reads it, and filters reach the source's indexes. Grain: source row. Empty if the source holds
    whole traces. -#}
{%- set events = source_if_there('trace_events', source_shape()) -%}
{{ rows_if_there(events, {
  'event_id': 'bigint', 'agent_id_hash': 'text', 'trace_id': 'text', 'event_type': 'text', 'attempt_index': 'integer',
  'ts': 'timestamptz',
}) }}
{%- if events is not none %} as part
where {{ is_event_of_trace('part') }}
{%- endif %}
