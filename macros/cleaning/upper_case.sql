{#- Text in upper case (scoring.md §2). Only the letters a to z change, so that the database's locale decides nothing: in
    Turkish the upper case of i is another letter. -#}
{% macro upper_case(text) -%}
  upper({{ text }} collate "C")
{%- endmacro %}
