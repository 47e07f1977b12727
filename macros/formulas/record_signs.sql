{#- The verdicts whose absence is a sign (certainty.md §5), in the order of the letters of `reporting`. -#}
{% macro record_sign_fields() %}
  {{ return(constant('record_sign_fields')) }}
{% endmacro %}

{#- A letter per verdict of a trace: r reported (a value that cleaning set aside was sent), c null though the JSON
    components hold it, u null though the action is one that is checked, - null by design. Agents of every version check
    coherence for SPEAK and TOOL, some for DEFER, and leave nothing else out by design. A component is unpacked for a null
    alone. -#}
{% macro reporting() -%}
  {%- set fields = record_sign_fields() -%}
  case
    when num_nulls({{ fields | join(', ') }}) = 0 then '{{ 'r' * fields | length }}'
    else concat(
      {% for field in fields %}
      case
        when {{ field }} is not null then 'r'
        {% if field == 'csdma_plausibility_score' %}
        when is_out_of_range_{{ field }} then 'r'
        {% endif %}
        {% if scoring_parameter('replay_enabled') %}
        when not {{ is_json_absent(components_of_columns()[field]) }} then 'c'
        {% endif %}
        {% if field == 'coherence_passed' %}
        when selected_action in ('SPEAK', 'TOOL') then 'u'
        else '-'
        {% else %}
        else 'u'
        {% endif %}
      end{% if not loop.last %},{% endif %}
      {% endfor %}
    )
  end
{%- endmacro %}

{#- A trace that fills a window and says little: of an action that no conscience looks at, or without a plausibility score. -#}
{% macro is_trivial(selected_action, csdma_plausibility_score) -%}
  ({{ csdma_plausibility_score }} is null or {{ selected_action }} in ('TASK_COMPLETE', 'RECALL', 'OBSERVE', 'REJECT')) is true
{%- endmacro %}

{#- Audit numbers begin again at 1 while the agent goes on. -#}
{% macro is_renumbered(audit_sequence_number, previous_audit_sequence_number) -%}
  coalesce({{ audit_sequence_number }} = 1 and {{ previous_audit_sequence_number }} > 1, false)
{%- endmacro %}

{#- The three scores that copies of a record share (certainty.md §5), in thousandths and as one integer, as each is in
    [0, 1]; absent_score in place of one that is absent. Null without a plausibility. statistics/alike.py takes them
    apart. -#}
{% macro score_triple() -%}
  {%- set base, absent = constant('score_triple_base'), constant('absent_score') -%}
  ((round(csdma_plausibility_score * 1000) * {{ base }} + coalesce(round(dsdma_domain_alignment * 1000), {{ absent }}))
   * {{ base }} + coalesce(round(coherence_level * 1000), {{ absent }}))::integer
{%- endmacro %}
