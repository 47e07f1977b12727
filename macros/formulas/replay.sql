{#- Replay comparisons (scoring.md §4, I_replay). Each renders to true (holds), false (does not hold, or an input has
    the wrong JSON type) or null (did not run, because an input is absent). A JSON value is absent when its key is, or
    when it is null; the usual case is tested first. -#}

{% macro is_json_absent(value) -%}
  ({{ value }} is null or jsonb_typeof({{ value }}) = 'null')
{%- endmacro %}

{#- Of two JSON values the first that is present. -#}
{% macro first_json(value, other) -%}
  coalesce(nullif({{ value }}, jsonb 'null'), {{ other }})
{%- endmacro %}

{#- What nearly every conscience_result says: every faculty passed, no guardrail was met, nothing was overridden. One
    containment test finds such a row, and spares it a look-up for each of these keys. -#}
{% macro usual_conscience_values() %}
  {{ return({'entropy_passed': 'true', 'coherence_passed': 'true', 'optimization_veto_passed': 'true',
             'epistemic_humility_passed': 'true', 'thought_depth_triggered': 'false',
             'updated_status_detected': 'false', 'conscience_passed': 'true', 'action_was_overridden': 'false'}) }}
{% endmacro %}

{#- The same as a jsonb constant, which such a conscience_result contains. -#}
{% macro usual_conscience() -%}
  jsonb '{ {%- for key, value in usual_conscience_values().items() -%}
    "{{ key }}": {{ value }}{% if not loop.last %}, {% endif %}
  {%- endfor -%} }'
{%- endmacro %}

{#- Comparison 1: a faculty's verdict follows from its score and its threshold. -#}
{% macro replay_faculty(passed, score, operator, threshold) -%}
  case
    when
      jsonb_typeof({{ passed }}) = 'boolean'
      and jsonb_typeof({{ score }}) = 'number'
      and jsonb_typeof({{ threshold }}) = 'number'
      then {{ passed }}::boolean = ({{ score }}::numeric {{ operator }} {{ threshold }}::numeric)
    when not ({{ is_json_absent(passed) }} or {{ is_json_absent(score) }} or {{ is_json_absent(threshold) }}) then false
  end
{%- endmacro %}

{#- Comparison 2: the conscience's verdict follows from the recorded faculty verdicts and the bypass guardrails. -#}
{% macro replay_conscience(passed, verdicts, guardrails) -%}
  case
    when
      {{ is_json_absent(passed) }}
      or (
        {% for verdict in verdicts %}
        {{ is_json_absent(verdict) }}{% if not loop.last %} and{% endif %}
        {% endfor %}
      ) then null
    when
      jsonb_typeof({{ passed }}) <> 'boolean'
      {% for value in verdicts + guardrails %}
      or jsonb_typeof({{ value }}) not in ('boolean', 'null')
      {% endfor %}
      then false
    else {{ passed }}::boolean = (
      {% for verdict in verdicts %}
      case when jsonb_typeof({{ verdict }}) = 'boolean' then {{ verdict }}::boolean else true end and
      {% endfor %}
      {% for guardrail in guardrails %}
      not case when jsonb_typeof({{ guardrail }}) = 'boolean' then {{ guardrail }}::boolean else false end
      {%- if not loop.last %} and{% endif %}
      {% endfor %}
    )
  end
{%- endmacro %}

{#- Comparison 3: a column agrees with its component, numbers to some decimals (rounded half away from zero, as
    numeric rounds), everything else exactly. -#}
{% macro replay_number(column, value, decimals=none) -%}
  case
    when {{ column }} is not null and {{ value }} is not null then case
      when jsonb_typeof({{ value }}) = 'number' then {{ column }} = {{ value }}::numeric
        {%- if decimals is not none %}
        or round({{ column }}, {{ decimals }}) = round({{ value }}::numeric, {{ decimals }})
        {%- endif %}
      when jsonb_typeof({{ value }}) = 'null' then null
      else false
    end
  end
{%- endmacro %}

{#- The same for a boolean. -#}
{% macro replay_boolean(column, value) -%}
  case
    when {{ column }} is not null and {{ value }} is not null then case
      when jsonb_typeof({{ value }}) = 'boolean' then {{ column }} = {{ value }}::boolean
      when jsonb_typeof({{ value }}) = 'null' then null
      else false
    end
  end
{%- endmacro %}

{#- The same for a text. -#}
{% macro replay_text(column, value) -%}
  case
    when {{ column }} is not null and {{ value }} is not null then case
      when jsonb_typeof({{ value }}) = 'string' then {{ column }} = {{ value }} #>> '{}'
      when jsonb_typeof({{ value }}) = 'null' then null
      else false
    end
  end
{%- endmacro %}

{#- The same of a verdict that usual_conscience settles. -#}
{% macro replay_verdict(column) -%}
  case
    when is_conscience_usual then {{ column }} = {{ usual_conscience_values()[column] }}
    else {{ replay_boolean(column, 'json_' ~ column) }}
  end
{%- endmacro %}

{#- The JSON values that the comparisons read, by name, each looked up once in the unpacked components. -#}
{% macro replayed_json() %}
  {%- set values = {
    'json_csdma_plausibility_score': first_json(
      "dma_results #> '{csdma,plausibility_score}'", "dma_results -> 'csdma_plausibility_score'"),
    'json_dsdma_domain_alignment': first_json(
      "dma_results #> '{dsdma,domain_alignment}'", "dma_results -> 'dsdma_domain_alignment'"),
    'json_action_success': first_json("action_result -> 'execution_success'", "action_result -> 'success'"),
    'json_audit_sequence_number': "action_result -> 'audit_sequence_number'",
    'json_audit_entry_hash': "action_result -> 'audit_entry_hash'",
  } -%}
  {%- for key in ['entropy_score', 'entropy_threshold', 'coherence_score', 'coherence_threshold', 'entropy_level',
                  'coherence_level'] -%}
    {%- do values.update({'json_' ~ key: "conscience_result -> '" ~ key ~ "'"}) -%}
  {%- endfor -%}
  {%- for key, value in usual_conscience_values().items() -%}
    {%- do values.update({'json_' ~ key:
      "case when is_conscience_usual then jsonb '" ~ value ~ "' else conscience_result -> '" ~ key ~ "' end"}) -%}
  {%- endfor -%}
  {{ return(values) }}
{% endmacro %}

{#- Every comparison by name, in the order in which replay_outcome has a letter for each. -#}
{% macro replay_comparisons() %}
  {{ return({
    'entropy_passed follows from its score':
      replay_faculty('json_entropy_passed', 'json_entropy_score', '<=', 'json_entropy_threshold'),
    'coherence_passed follows from its score':
      replay_faculty('json_coherence_passed', 'json_coherence_score', '>=', 'json_coherence_threshold'),
    'conscience_passed follows from its verdicts': 'is_conscience_usual or ' ~ replay_conscience(
      'json_conscience_passed',
      ['json_entropy_passed', 'json_coherence_passed', 'json_optimization_veto_passed',
       'json_epistemic_humility_passed'],
      ['json_thought_depth_triggered', 'json_updated_status_detected']),
    'csdma_plausibility_score': replay_number('csdma_plausibility_score', 'json_csdma_plausibility_score', 2),
    'dsdma_domain_alignment': replay_number('dsdma_domain_alignment', 'json_dsdma_domain_alignment', 2),
    'entropy_level': replay_number('entropy_level', 'json_entropy_level', 4),
    'coherence_level': replay_number('coherence_level', 'json_coherence_level', 4),
    'coherence_passed': replay_verdict('coherence_passed'),
    'conscience_passed': replay_verdict('conscience_passed'),
    'action_was_overridden': replay_verdict('action_was_overridden'),
    'action_success': replay_boolean('action_success', 'json_action_success'),
    'audit_sequence_number': replay_number('audit_sequence_number', 'json_audit_sequence_number'),
    'audit_entry_hash': replay_text('audit_entry_hash', 'json_audit_entry_hash'),
  }) }}
{% endmacro %}
