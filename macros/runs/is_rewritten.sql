{#- Which rows a run rewrites, by the column that meta.range_column names: as-ofs, which end a period, or times and
    period starts (meta.range_opens is > for the first, >= for the others). Bounded on both sides, because a backfill
    leaves what lies behind it. -#}
{% macro is_rewritten(column, range_opens='>=') -%}
  {%- if range_opens == '>' -%}
  ({{ column }} > {{ cutoff() }} and {{ column }} <= {{ as_of() }})
  {%- else -%}
  ({{ column }} >= {{ rejudged_from() }} and {{ column }} < {{ as_of() }})
  {%- endif -%}
{%- endmacro %}
