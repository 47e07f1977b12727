{#- Sum over a half-open window [as_of - n_periods, as_of), from a running total over the agent's gapless periods
    (named window `spine`): the total now less the total n_periods earlier, which is 0 before the first period.
    Totals are integers or exact numerics, so nothing is lost in the difference. -#}
{% macro window_sum(running_total, n_periods) -%}
  {{ running_total }} - coalesce(lag({{ running_total }}, {{ n_periods }}) over spine, 0)
{%- endmacro %}

{#- Sum over the baseline window [as_of - window - baseline, as_of - window). -#}
{% macro baseline_sum(running_total, window_periods, baseline_periods) -%}
  coalesce(lag({{ running_total }}, {{ window_periods }}) over spine, 0)
  - coalesce(lag({{ running_total }}, {{ window_periods }} + {{ baseline_periods }}) over spine, 0)
{%- endmacro %}
