{#- A score; null if it is outside [0, 1], NaN or infinite (scoring.md §2). Decimals after the 30th are cut, because sums
    keep every decimal. They are not rounded, so that a score stays in its bin. -#}
{% macro clean_unit_score(column) -%}
  case
    when {{ column }}::numeric not between 0 and 1 then null
    when scale({{ column }}::numeric) <= 30 then {{ column }}::numeric
    else trunc({{ column }}::numeric, 30)
  end
{%- endmacro %}

{#- A number; null if it is negative, NaN or infinite (scoring.md §2, idma_k_eff). -#}
{% macro clean_non_negative(column) -%}
  case when {{ column }}::numeric >= 0 and {{ column }}::numeric < 'Infinity' then {{ column }}::numeric end
{%- endmacro %}

{#- A whole number as bigint; null if it has a fraction, is out of range, NaN or infinite. -#}
{% macro clean_whole_number(column, lowest=-9223372036854775808, highest=9223372036854775807) -%}
  case
    when {{ column }} between {{ lowest }} and {{ highest }} and trunc({{ column }}::numeric) = {{ column }}
      then {{ column }}::bigint
  end
{%- endmacro %}
