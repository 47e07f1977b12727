{#- Return a value that SQL and Python share. It comes from ciris_scoring.for_macros through dbt's adapter
    (dbt_postgres_python). otherwise: value to return if the package is not installed, so that dbt can parse the project
    and check_package can refuse the run. -#}
{% macro constant(name, otherwise=[]) %}
  {%- set value = adapter.ciris_scoring_constants()[name] if adapter.ciris_scoring_constants is defined else otherwise -%}
  {{ return(value if value is mapping or value is string or value is not iterable else value | list) }}
{% endmacro %}

{#- Value of a variable of the project. name: the variable's name without the prefix ciris_. -#}
{% macro setting(name) %}
  {{ return(var('ciris_' ~ name)) }}
{% endmacro %}

{#- A text, or the name of a relation, as an SQL literal. -#}
{% macro literal(text) %}
  {{ return("'" ~ text | string | replace("'", "''") ~ "'") }}
{% endmacro %}

{#- A value as it is shown in a message. Text is in quotes, so that the text '6' differs from the number 6. -#}
{% macro shown(value) %}
  {%- if value is string -%} {{ return("'" ~ value ~ "'") }}
  {%- elif value is none -%} {{ return('null') }}
  {%- elif value is boolean -%} {{ return('true' if value else 'false') }}
  {%- else -%} {{ return(value | string) }}
  {%- endif -%}
{% endmacro %}

{#- SQL array of n elements. $i in the text of an element is replaced by 1 to n. -#}
{% macro array_of_each(n, element) -%}
  array[
    {%- for i in range(1, n + 1) %}{{ element | replace('$i', i | string) }}{% if not loop.last %}, {% endif %}{% endfor -%}
  ]
{%- endmacro %}
