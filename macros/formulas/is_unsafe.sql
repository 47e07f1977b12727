{#- Failed action under high uncertainty (scoring.md §6, U_unsafe). -#}
{% macro is_unsafe(entropy_level, action_success) -%}
  coalesce({{ entropy_level }} > {{ scoring_parameter('unsafe_entropy_threshold') }} and not {{ action_success }}, false)
{%- endmacro %}
