{#- A score outside [0, 1], NaN or infinite becomes null (scoring.md §2). Decimals after the 30th are cut, because sums
    keep every decimal. They are not rounded, so that a score stays in its bin. -#}
{% macro clean_unit_score(column, type) -%}
  case when {{ column }}::numeric between 0 and 1 then
    {%- if type.kind in ['int2', 'int4', 'int8'] or modules.re.match('numeric[(][0-9]+,[0-9][)]$', type.declared | default('')) %}
    {{ column }}::numeric
    {%- else %}
    case when scale({{ column }}::numeric) <= 30 then {{ column }}::numeric else trunc({{ column }}::numeric, 30) end
    {%- endif %}
  end
{%- endmacro %}

{#- A negative, NaN or infinite number becomes null (scoring.md §2, idma_k_eff). -#}
{% macro clean_non_negative(column) -%}
  case when {{ column }}::numeric >= 0 and {{ column }}::numeric < 'Infinity' then {{ column }}::numeric end
{%- endmacro %}

{#- A whole number as bigint; null if it has a fraction, is out of range, NaN or infinite. If the column has an integer
    type and no limits are given, it is only cast. -#}
{% macro clean_whole_number(column, type, lowest=none, highest=none) -%}
  {%- set is_whole = type.kind in ['int2', 'int4', 'int8'] -%}
  {%- if is_whole and lowest is none -%}
  {{ column }}::bigint
  {%- else -%}
  case
    when
      {{ column }} between {{ -9223372036854775808 if lowest is none else lowest }}
      and {{ 9223372036854775807 if highest is none else highest }}
      {%- if not is_whole %}
      and trunc({{ column }}::numeric) = {{ column }}
      {%- endif %}
      then {{ column }}::bigint
  end
  {%- endif -%}
{%- endmacro %}
