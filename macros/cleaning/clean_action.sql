{#- An action's bare name (section 2): trimmed, upper case, without a leading HANDLERACTIONTYPE. The first test settles
    a name that is already bare. -#}
{% macro clean_action(column) -%}
  case
    when {{ column }} ~ '^[A-Z_]+$' then {{ column }}
    else nullif(btrim(
      regexp_replace(upper(btrim({{ column }}, {{ white_space() }})), '^HANDLERACTIONTYPE[.]', ''),
      {{ white_space() }}
    ), '')
  end
{%- endmacro %}
