{#- Number of the last event that earlier runs have searched, so that events that arrived since are found whatever their
    time; none if there was no such run. It is that of the run before last, because events may have been on their way
    while the last run searched. -#}
{% macro events_known_until() %}
  {%- set last_run = relation_as_left('int_scoring_run') -%}
  {%- if last_run is none -%} {{ return(none) }} {%- endif -%}
  {%- set rows = run_query("
    select coalesce(to_jsonb(run) ->> 'earlier_event_id', to_jsonb(run) ->> 'newest_event_id') from " ~ last_run ~ " as run") -%}
  {{ return(rows[0][0] if rows | length > 0 else none) }}
{% endmacro %}
