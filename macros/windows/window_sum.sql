{#- Sum over the half-open window between two as-ofs, from running totals over the agent's gapless periods: the total at
    the end less the one at the start, which is 0 before the first period. Totals are integers or exact numerics, so
    nothing is lost in the difference. `until` and `since` are the aliases under which the rows of the window's end and
    of its start are joined. -#}
{% macro window_sum(running_total, until, since) -%}
  coalesce({{ until }}.{{ running_total }}, 0) - coalesce({{ since }}.{{ running_total }}, 0)
{%- endmacro %}
