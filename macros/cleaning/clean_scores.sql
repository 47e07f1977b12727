{#- A score outside [0, 1], NaN or infinite becomes null (section 2). PostgreSQL sorts NaN above infinity. -#}
{% macro clean_unit_score(column) -%}
  case when {{ column }}::numeric between 0 and 1 then {{ column }}::numeric end
{%- endmacro %}

{#- A negative, NaN or infinite number becomes null (section 2, idma_k_eff). -#}
{% macro clean_non_negative(column) -%}
  case when {{ column }}::numeric >= 0 and {{ column }}::numeric < 'Infinity' then {{ column }}::numeric end
{%- endmacro %}
