{#- Replay comparisons (section 4, I_replay). Each renders to true (holds), false (does not hold, or an input has the
    wrong JSON type) or null (did not run, because an input is absent). JSON values come with JSON null already
    turned into SQL null. -#}

{#- A JSON key that is present and not null. A container that is not an object has no keys. -#}
{% macro json_value(container, key) -%}
  nullif({{ container }} -> '{{ key }}', 'null'::jsonb)
{%- endmacro %}

{#- Comparison 1: a faculty's verdict follows from its score and its threshold. -#}
{% macro replay_faculty(passed, score, operator, threshold) -%}
  case
    when {{ passed }} is null or {{ score }} is null or {{ threshold }} is null then null
    when
      jsonb_typeof({{ passed }}) <> 'boolean'
      or jsonb_typeof({{ score }}) <> 'number'
      or jsonb_typeof({{ threshold }}) <> 'number' then false
    else {{ passed }}::boolean = ({{ score }}::numeric {{ operator }} {{ threshold }}::numeric)
  end
{%- endmacro %}

{#- Comparison 2: the conscience's verdict follows from the recorded faculty verdicts and the bypass guardrails. -#}
{% macro replay_conscience(passed, verdicts, guardrails) -%}
  case
    when {{ passed }} is null or num_nonnulls({{ verdicts | join(', ') }}) = 0 then null
    when
      jsonb_typeof({{ passed }}) <> 'boolean'
      {% for value in verdicts + guardrails %}
      or jsonb_typeof({{ value }}) <> 'boolean'
      {% endfor %}
      then false
    else {{ passed }}::boolean = (
      {% for verdict in verdicts %}
      coalesce({{ verdict }}, 'true')::boolean and
      {% endfor %}
      {% for guardrail in guardrails %}
      not coalesce({{ guardrail }}, 'false')::boolean{% if not loop.last %} and{% endif %}
      {% endfor %}
    )
  end
{%- endmacro %}

{#- Comparison 3: a column agrees with its component, numbers to some decimals (rounded half away from zero, as
    numeric rounds), everything else exactly. -#}
{% macro replay_number(column, value, decimals=none) -%}
  case
    when {{ column }} is null or {{ value }} is null then null
    when jsonb_typeof({{ value }}) <> 'number' then false
    {% if decimals is none %}
    else {{ column }} = {{ value }}::numeric
    {% else %}
    else round({{ column }}, {{ decimals }}) = round({{ value }}::numeric, {{ decimals }})
    {% endif %}
  end
{%- endmacro %}

{% macro replay_exact(column, value) -%}
  to_jsonb({{ column }}) = {{ value }}
{%- endmacro %}

{#- The comparisons in the order in which int_trace_verdicts makes them. -#}
{% macro replay_comparison_names() %}
  {{ return(['entropy_passed follows from its score', 'coherence_passed follows from its score',
             'conscience_passed follows from its verdicts', 'csdma_plausibility_score', 'dsdma_domain_alignment',
             'entropy_level', 'coherence_level', 'coherence_passed', 'conscience_passed', 'action_was_overridden',
             'action_success', 'audit_sequence_number', 'audit_entry_hash']) }}
{% endmacro %}
