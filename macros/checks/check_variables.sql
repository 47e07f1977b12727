{#- The value of a variable that is needed while dbt parses the project, when check_variables has not run yet. A wrong
    value is an error. -#}
{% macro valid_setting(name) %}
  {%- if adapter.ciris_scoring_variable_fault is defined -%}
    {%- set fault = adapter.ciris_scoring_variable_fault(name, setting(name)) -%}
    {%- if fault is not none -%} {{ exceptions.raise_compiler_error(fault) }} {%- endif -%}
  {%- endif -%}
  {{ return(setting(name)) }}
{% endmacro %}

{#- Refuses wrong values of variables and scoring parameters, and unknown names, all in one message. -#}
{% macro check_variables() %}
  {%- set settings = {} -%}
  {%- for name in constant('variables') -%} {%- do settings.update({name: setting(name)}) -%} {%- endfor -%}
  {%- set faults = adapter.ciris_scoring_faults_of_variables(settings, scoring_parameter_definitions()) | list -%}
  {%- if faults -%} {{ refuse(faults | join(' ')) }} {%- endif -%}
{% endmacro %}
