{#- Red flags of selective reporting (certainty.md §5). -#}

{#- A text with one letter per field of red_flag_fields:
    r: the field is reported, even if cleaning removed its value.
    c: it is null, but the JSON components have a value. Not used if replay_enabled is false.
    u: it is null, but the trace should report it.
    -: it is null by design. Only coherence_passed can be null by design: all agents check coherence for SPEAK and
       TOOL, and some versions also for DEFER.
    The JSON components are read only if the field is null, because reading them is slow. -#}
{% macro reporting() -%}
  {%- set fields = constant('red_flag_fields') -%}
  case
    when num_nulls({{ fields | join(', ') }}) = 0 then '{{ 'r' * fields | length }}'
    else concat(
      {% for field in fields %}
      case
        when {{ field }} is not null then 'r'
        {% if field == 'csdma_plausibility_score' %}
        when 'out_of_range_{{ field }}' = any(repairs) then 'r'
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

{#- Whether a trace is trivial, that is, a conscience does not check its action, or it has no plausibility score. -#}
{% macro is_trivial(selected_action, csdma_plausibility_score) -%}
  ({{ csdma_plausibility_score }} is null or {{ selected_action }} in ('TASK_COMPLETE', 'RECALL', 'OBSERVE', 'REJECT')) is true
{%- endmacro %}

{#- Whether the audit number is 1 although the agent's previous number was higher. -#}
{% macro is_renumbered(audit_sequence_number, previous_audit_sequence_number) -%}
  coalesce({{ audit_sequence_number }} = 1 and {{ previous_audit_sequence_number }} > 1, false)
{%- endmacro %}

{#- Whether a trace has the trace_id, the action and the scores of the agent's previous trace, at most a second before it
    in the same period: one decision that was signed twice, under two audit numbers. ordered: a window in the order of
    the agent's traces. -#}
{% macro is_repeated_decision(ordered) -%}
  {%- set content -%}
  row(
    selected_action, action_success, csdma_plausibility_score, dsdma_domain_alignment, coherence_level, entropy_level
  )
  {%- endset -%}
  coalesce(
    is_counted
    and lag(is_counted) over {{ ordered }}
    and lag(trace_id) over {{ ordered }} = trace_id
    and lag(period_start) over {{ ordered }} = period_start
    and lag(traced_at) over {{ ordered }} >= traced_at - interval '1 second'
    and lag({{ content }}) over {{ ordered }} is not distinct from {{ content }},
    false
  )
{%- endmacro %}

{#- Plausibility, domain alignment and coherence level, which copies of a record share (certainty.md §5), each in
    thousandths, as one integer; absent_score stands for a missing score. Null without a plausibility score.
    red_flags/ties.py splits the integer into the three scores. -#}
{% macro score_triple() -%}
  {%- set base, absent = constant('score_triple_base'), constant('absent_score') -%}
  ((round(csdma_plausibility_score * 1000) * {{ base }} + coalesce(round(dsdma_domain_alignment * 1000), {{ absent }}))
   * {{ base }} + coalesce(round(coherence_level * 1000), {{ absent }}))::integer
{%- endmacro %}
