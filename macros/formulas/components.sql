{#- The rows of seeds/components.csv, in its order. Jinja cannot read files, so the Python package reads the file
    (ciris_scoring.kinds.components, through dbt_postgres_python). Empty while dbt parses. -#}
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
