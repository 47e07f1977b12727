{#- The rows of seeds/components.csv, in its order. Jinja can read no file, so the Python package does
    (ciris_scoring.basics.components, through dbt_postgres_python). None while dbt parses, which needs no column. -#}
{% macro component_rows() %}
  {{ return(adapter.ciris_scoring_components() if execute else []) }}
{% endmacro %}

{#- The components of fct_factor_components. -#}
{% macro components() %}
  {{ return(component_rows() | selectattr('component_words') | map(attribute='component') | list) }}
{% endmacro %}

{#- The rows of the parts that a score loses points to, in the order of certainty.md §1. -#}
{% macro part_rows() %}
  {{ return(component_rows() | selectattr('part_order') | sort(attribute='part_order')) }}
{% endmacro %}

{#- Their names. -#}
{% macro attributed_parts() %}
  {{ return(part_rows() | map(attribute='component') | list) }}
{% endmacro %}

{#- Components that have limits. s_score is a factor, with limits among the factors'. -#}
{% macro components_with_limits() %}
  {{ return(component_rows() | selectattr('has_limits') | selectattr('component_words') | map(attribute='component')
            | list) }}
{% endmacro %}

{#- Components that have a design effect, COMPONENT_design_effect: the nine that are behaviour (certainty.md §4), in the
    order of the arrays of int_windows. -#}
{% macro components_with_design_effect() %}
  {{ return(component_rows() | selectattr('has_design_effect') | map(attribute='component') | list) }}
{% endmacro %}

{#- The columns of limits of the components and their design effects, in order. -#}
{% macro component_limit_columns() %}
  {%- set names = [] -%}
  {%- for component in components_with_limits() -%}
    {%- do names.extend([component ~ '_low', component ~ '_high']) -%}
  {%- endfor -%}
  {%- for component in components_with_design_effect() -%} {%- do names.append(component ~ '_design_effect') -%} {%- endfor -%}
  {{ return(names) }}
{% endmacro %}

{#- Quantities of which traces of a day correlate over the fleet, QUANTITY_correlation. -#}
{% macro quantities_with_correlation() %}
  {%- set names = component_rows() | selectattr('is_rate') | map(attribute='component') | list + ['ece'] -%}
  {%- for metric in drift_metrics() -%} {%- do names.append('delta_' ~ metric) -%} {%- endfor -%}
  {{ return(names) }}
{% endmacro %}

{#- SQL for a part in words, with its column beside them. -#}
{% macro named_part(part) -%}
  case {{ part }}
    {%- for row in part_rows() %}
    when '{{ row.component }}' then '{{ row.part_words }} ({{ row.component }})'
    {%- endfor %}
  end
{%- endmacro %}
