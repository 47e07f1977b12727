{#- Stretches of time [T - days_from, T - days_until) that a score at T looks at, per scoring window: the window; the steady
    days, in which deferrals and episodes are averaged for capacity_score_steady, at least the window (certainty.md §4b);
    and as many days before the window, with which the alert episode compares (certainty.md §4). -#}
{% macro window_ranges() %}
  {%- set steady_days = scoring_parameter('steady_days') -%}
  (
    {%- for name, days_from, days_until in [
        ('window', 'window_days', '0'),
        ('steady', 'greatest(window_days, ' ~ steady_days ~ ')', '0'),
        ('before', 'window_days + ' ~ steady_days, 'window_days'),
    ] %}
    select window_days, '{{ name }}' as range_name, {{ days_from }} as days_from, {{ days_until }} as days_until
    from {{ ref('scoring_windows') }}
    {%- if not loop.last %} union all{% endif %}
    {%- endfor %}
  )
{%- endmacro %}

{#- Before the cutoff by the longest window and the steady days: nothing that is averaged or compared begins earlier. -#}
{% macro ranges_from() %}
  {{ return(windows_from() ~ " - " ~ days(scoring_parameter('steady_days'))) }}
{% endmacro %}
