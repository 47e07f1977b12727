{#- An action's bare name (section 2): trimmed, upper case, without a leading HANDLERACTIONTYPE. -#}
{% macro clean_action(column) -%}
  nullif(btrim(regexp_replace(upper(btrim({{ column }}, {{ white_space() }})), '^HANDLERACTIONTYPE\.', ''), {{ white_space() }}), '')
{%- endmacro %}
