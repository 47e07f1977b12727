{#- Whether an event of this type is part of a trace. Of other events only the marks of the run kind are read. -#}
{% macro is_part_of_trace(event_type) -%}
  {{ event_type }} in (
    'THOUGHT_START', 'SNAPSHOT_AND_CONTEXT', 'DMA_RESULTS', 'IDMA_RESULT', 'ASPDMA_RESULT', 'CONSCIENCE_RESULT',
    'ACTION_RESULT'
  )
{%- endmacro %}

{#- Value of the last event of a trace that meets a condition: the outcome before other types, then the greatest
    attempt_index, then the latest. All calls have the same order, which PostgreSQL 16 and later sort only once. -#}
{% macro last_event(column, condition) -%}
  (
    array_agg({{ column }} order by event_type = 'ACTION_RESULT' desc, attempt_index desc, ts desc, event_id desc)
    filter (where {{ condition }})
  )[1]
{%- endmacro %}

{#- First value that was sent, as jsonb, of several places in payloads: 'dma_results.csdma.plausibility_score'. A JSON
    null and an empty text were not sent. -#}
{% macro first_sent(places) -%}
  coalesce(
    {%- for place in places %}
    {%- set path = place.split('.') %}
    nullif(nullif({{ path[0] }} #> '{ {{- path[1:] | join(',') -}} }', 'null'), '""'){{ ',' if not loop.last }}
    {%- endfor %}
  )
{%- endmacro %}

{#- A jsonb value as text, boolean or numeric; null if it has another JSON type: string, boolean or number. -#}
{% macro as_value(value, json_type, type) -%}
  case when jsonb_typeof({{ value }}) = '{{ json_type }}' then ({{ value }} #>> '{}')::{{ type }} end
{%- endmacro %}

{#- Name of an issue if a value was sent with another JSON type than expected. -#}
{% macro unreadable(name, value, type) -%}
  case when jsonb_typeof({{ value }}) <> '{{ type }}' then 'unreadable_{{ name }}' end
{%- endmacro %}

{#- Members of a payload that are not null, as an object; null if the payload is not an object. -#}
{% macro values_of(payload, members) -%}
  case
    when jsonb_typeof({{ payload }}) = 'object' then jsonb_strip_nulls(jsonb_build_object(
      {% for member in members %}
      '{{ member }}', {{ payload }} -> '{{ member }}'{{ ',' if not loop.last }}
      {% endfor %}
    ))
  end
{%- endmacro %}
