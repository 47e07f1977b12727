{#- Events of all types, without payloads. The view has no CTEs, so PostgreSQL merges it
    into the query that reads it, and filters reach the source's indexes. Grain: source row. Empty if the source holds
    whole traces. -#}
{{ rows_if_there(source_if_there('trace_events', source_shape()), {
  'event_id': 'bigint', 'agent_id_hash': 'text', 'trace_id': 'text', 'event_type': 'text', 'attempt_index': 'integer',
  'ts': 'timestamptz',
}) }}
