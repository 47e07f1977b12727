{#- The rows of seeds/components.csv, in its order. Jinja cannot read files, so the Python package reads the file
    (ciris_scoring.basics.components, through dbt_postgres_python). Empty while dbt parses. -#}
{% macro component_rows() %}
  {{ return(constant('components') if execute else []) }}
{% endmacro %}

{#- Components in fct_factor_components. -#}
{% macro components() %}
  {{ return(component_rows() | selectattr('component_words') | map(attribute='component') | list) }}
{% endmacro %}

{#- Rows of the loss components, in the order of certainty.md §1. -#}
{% macro loss_component_rows() %}
  {{ return(component_rows() | selectattr('loss_order') | sort(attribute='loss_order')) }}
{% endmacro %}

{#- Names of the loss components. -#}
{% macro loss_components() %}
  {{ return(loss_component_rows() | map(attribute='component') | list) }}
{% endmacro %}

{#- Components with confidence bounds, except s_score, which is also a factor. -#}
{% macro components_with_intervals() %}
  {{ return(component_rows() | selectattr('has_interval') | selectattr('component_words') | map(attribute='component')
            | list) }}
{% endmacro %}

{#- Rate components, in the order of the arrays in fct_score_certainty. They have published design effects
    (certainty.md §3). -#}
{% macro components_with_design_effect() %}
  {{ return(component_rows() | selectattr('has_design_effect') | map(attribute='component') | list) }}
{% endmacro %}

{#- Names of the columns with confidence bounds of components, then of the columns with design effects. -#}
{% macro component_bound_columns() %}
  {%- set names = [] -%}
  {%- for component in components_with_intervals() -%}
    {%- do names.extend([component ~ '_low', component ~ '_high']) -%}
  {%- endfor -%}
  {%- for component in components_with_design_effect() -%} {%- do names.append(component ~ '_design_effect') -%} {%- endfor -%}
  {{ return(names) }}
{% endmacro %}
