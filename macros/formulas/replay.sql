{#- Replay comparisons (scoring.md §4, I_replay). Each renders to true (holds), false (does not hold, or an input has
    the wrong JSON type) or null (did not run, because an input is absent). A JSON value is absent when its key is, or
    when it is null; the usual case is tested first. -#}

{% macro is_json_absent(value) -%}
  coalesce(jsonb_typeof({{ value }}), 'null') = 'null'
{%- endmacro %}

{#- Of two JSON values the first that is present. -#}
{% macro first_json(value, other) -%}
  coalesce(nullif({{ value }}, jsonb 'null'), {{ other }})
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

{#- Where the components say what a column says too, by column. -#}
{% macro components_of_columns() %}
  {{ return({
    'csdma_plausibility_score': first_json(
      "dma_results #> '{csdma,plausibility_score}'", "dma_results -> 'csdma_plausibility_score'"),
    'dsdma_domain_alignment': first_json(
      "dma_results #> '{dsdma,domain_alignment}'", "dma_results -> 'dsdma_domain_alignment'"),
    'idma_fragility_flag': "dma_results #> '{idma,fragility_flag}'",
    'entropy_level': "conscience_result -> 'entropy_level'",
    'coherence_level': "conscience_result -> 'coherence_level'",
    'coherence_passed': "conscience_result -> 'coherence_passed'",
    'conscience_passed': "conscience_result -> 'conscience_passed'",
    'action_was_overridden': "conscience_result -> 'action_was_overridden'",
    'action_success': first_json("action_result -> 'execution_success'", "action_result -> 'success'"),
    'audit_sequence_number': "action_result -> 'audit_sequence_number'",
    'audit_entry_hash': "action_result -> 'audit_entry_hash'",
  }) }}
{% endmacro %}

{#- The JSON values that the comparisons read, by name, each looked up once in the unpacked components. -#}
{% macro replayed_json() %}
  {%- set values = {} -%}
  {%- for column, value in components_of_columns().items() if column != 'idma_fragility_flag' -%}
    {%- do values.update({'json_' ~ column: value}) -%}
  {%- endfor -%}
  {%- for key in ['entropy_score', 'entropy_threshold', 'entropy_passed', 'coherence_score', 'coherence_threshold',
                  'optimization_veto_passed', 'epistemic_humility_passed', 'thought_depth_triggered',
                  'updated_status_detected'] -%}
    {%- do values.update({'json_' ~ key: "conscience_result -> '" ~ key ~ "'"}) -%}
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
    'conscience_passed follows from its verdicts': replay_conscience(
      'json_conscience_passed',
      ['json_entropy_passed', 'json_coherence_passed', 'json_optimization_veto_passed',
       'json_epistemic_humility_passed'],
      ['json_thought_depth_triggered', 'json_updated_status_detected']),
    'csdma_plausibility_score': replay_number('csdma_plausibility_score', 'json_csdma_plausibility_score', 2),
    'dsdma_domain_alignment': replay_number('dsdma_domain_alignment', 'json_dsdma_domain_alignment', 2),
    'entropy_level': replay_number('entropy_level', 'json_entropy_level', 4),
    'coherence_level': replay_number('coherence_level', 'json_coherence_level', 4),
    'coherence_passed': replay_boolean('coherence_passed', 'json_coherence_passed'),
    'conscience_passed': replay_boolean('conscience_passed', 'json_conscience_passed'),
    'action_was_overridden': replay_boolean('action_was_overridden', 'json_action_was_overridden'),
    'action_success': replay_boolean('action_success', 'json_action_success'),
    'audit_sequence_number': replay_number('audit_sequence_number', 'json_audit_sequence_number'),
    'audit_entry_hash': replay_text('audit_entry_hash', 'json_audit_entry_hash'),
  }) }}
{% endmacro %}
