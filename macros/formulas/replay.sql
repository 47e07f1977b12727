{#- Replay comparisons (scoring.md §4, I_replay). A comparison is true if the recorded value follows from its inputs. It
    is false if the value does not follow, or if an input has the wrong JSON type. It is null if an input is absent. The
    usual case is tested first. -#}

{#- Whether a JSON value is absent: its key is missing, or it is null. -#}
{% macro is_json_absent(value) -%}
  coalesce(jsonb_typeof({{ value }}), 'null') = 'null'
{%- endmacro %}

{#- The first of two JSON values, or the second if the first is absent. -#}
{% macro first_json(value, other) -%}
  coalesce(nullif({{ value }}, jsonb 'null'), {{ other }})
{%- endmacro %}

{#- Comparison 1: the result of a check of the conscience follows from its score and threshold. -#}
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

{#- Comparison 2: the result of the conscience follows from the results of its checks and from the guardrails. -#}
{% macro replay_conscience(passed, checks, guardrails) -%}
  case
    when
      {{ is_json_absent(passed) }}
      or (
        {% for check in checks %}
        {{ is_json_absent(check) }}{% if not loop.last %} and{% endif %}
        {% endfor %}
      ) then null
    when
      jsonb_typeof({{ passed }}) <> 'boolean'
      {% for value in checks + guardrails %}
      or jsonb_typeof({{ value }}) not in ('boolean', 'null')
      {% endfor %}
      then false
    else {{ passed }}::boolean = (
      {% for check in checks %}
      case when jsonb_typeof({{ check }}) = 'boolean' then {{ check }}::boolean else true end and
      {% endfor %}
      {% for guardrail in guardrails %}
      not case when jsonb_typeof({{ guardrail }}) = 'boolean' then {{ guardrail }}::boolean else false end
      {%- if not loop.last %} and{% endif %}
      {% endfor %}
    )
  end
{%- endmacro %}

{#- Comparison 3: a column equals the value that the trace's JSON components contain for it. The result is false if the
    value does not have the JSON type `type`. With `decimals`, numbers also agree if they are equal after rounding to so
    many decimals (half away from zero, as PostgreSQL rounds numeric). -#}
{% macro replay_column(column, type, decimals=none) -%}
  {%- set value = 'json_' ~ column -%}
  {%- set typed = value ~ {'number': '::numeric', 'boolean': '::boolean', 'string': " #>> '{}'"}[type] -%}
  case
    when {{ column }} is not null and {{ value }} is not null then case
      when jsonb_typeof({{ value }}) = '{{ type }}' then {{ column }} = {{ typed }}
        {%- if decimals is not none %}
        or round({{ column }}, {{ decimals }}) = round({{ typed }}, {{ decimals }})
        {%- endif %}
      when jsonb_typeof({{ value }}) = 'null' then null
      else false
    end
  end
{%- endmacro %}

{#- Expressions that read the value of each trace column from the JSON components of the trace. -#}
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

{#- Expressions of the replay comparisons by name, in the order of the letters in replay_outcome. -#}
{% macro replay_comparisons() %}
  {{ return({
    'entropy_passed follows from its score':
      replay_faculty('json_entropy_passed', 'json_entropy_score', '<=', 'json_entropy_threshold'),
    'coherence_passed follows from its score':
      replay_faculty('json_coherence_passed', 'json_coherence_score', '>=', 'json_coherence_threshold'),
    'conscience_passed follows from its checks': replay_conscience(
      'json_conscience_passed',
      ['json_entropy_passed', 'json_coherence_passed', 'json_optimization_veto_passed',
       'json_epistemic_humility_passed'],
      ['json_thought_depth_triggered', 'json_updated_status_detected']),
    'csdma_plausibility_score': replay_column('csdma_plausibility_score', 'number', 2),
    'dsdma_domain_alignment': replay_column('dsdma_domain_alignment', 'number', 2),
    'entropy_level': replay_column('entropy_level', 'number', 4),
    'coherence_level': replay_column('coherence_level', 'number', 4),
    'coherence_passed': replay_column('coherence_passed', 'boolean'),
    'conscience_passed': replay_column('conscience_passed', 'boolean'),
    'action_was_overridden': replay_column('action_was_overridden', 'boolean'),
    'action_success': replay_column('action_success', 'boolean'),
    'audit_sequence_number': replay_column('audit_sequence_number', 'number'),
    'audit_entry_hash': replay_column('audit_entry_hash', 'string'),
  }) }}
{% endmacro %}
