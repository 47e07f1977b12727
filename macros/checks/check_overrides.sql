{#- Refuses settings of a root project that decide what the package's nodes keep, or that switch off what guards them. It
    comes before the log of runs is written, because such a setting may have moved the log too. -#}
{% macro check_overrides() %}
  {%- set faults = [] -%}
  {%- for override in adapter.ciris_scoring_overrides() -%}
    {%- do faults.append(
      override.place ~ " is " ~ shown(override.value) ~ " in the root project, which changes " ~ override.node
      ~ (" and " ~ (override.n_nodes - 1) ~ " more nodes" if override.n_nodes > 1 else "") ~ " of ciris_scoring. "
      ~ ("Take it out." if override.is_scoped else "Write it below the project's own name: " ~ override.own_place ~ ".")) -%}
  {%- endfor -%}
  {%- if faults -%}
    {{ refuse("Settings that would change what ciris_scoring keeps or how it is checked: " ~ faults | join(' ')
      ~ " docs/package.md says what a root project may set.") }}
  {%- endif -%}
{% endmacro %}
