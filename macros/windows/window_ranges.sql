{#- The ranges [T - days_from, T - days_until) of a score at T: the window; steady, over which capacity_score_steady
    averages (certainty.md §4b), at least the window; before, as many days before the window, with which the alert
    episode compares (certainty.md §4). -#}
{% macro window_ranges() %}
  {%- set steady_days = scoring_parameter('steady_days') -%}
  (
    select
      windows.window_days,
      ranges.range_name,
      ranges.days_from,
      ranges.days_until
    from {{ ref('scoring_windows') }} as windows
    cross join lateral (
      values
      ('window', windows.window_days, 0),
      ('steady', greatest(windows.window_days, {{ steady_days }}), 0),
      ('before', windows.window_days + {{ steady_days }}, windows.window_days)
    ) as ranges (range_name, days_from, days_until)
  )
{%- endmacro %}

{#- Before the cutoff by the longest window and the steady days: nothing averaged or compared begins earlier. -#}
{% macro ranges_from() %}
  {{ return(windows_from() ~ " - " ~ days(scoring_parameter('steady_days'))) }}
{% endmacro %}

{#- The ranges, likewise, of deferrals that signs count (certainty.md §5): raised in the window; due, which an authority
    has had days_to_judge for; due before, in the window's baseline. Those that are open count until known_later days
    after they were judged, others always: null. -#}
{% macro due_ranges() %}
  (
    select
      windows.window_days,
      ranges.what,
      ranges.days_from,
      ranges.days_until,
      ranges.known_later
    from {{ ref('scoring_windows') }} as windows
    cross join lateral (
      values
      ('raised', windows.window_days, 0, null),
      ('due', windows.window_days + {{ days_to_judge() }}, {{ days_to_judge() }}, null),
      ('due_open', windows.window_days + {{ days_to_judge() }}, {{ days_to_judge() }}, 0),
      ('due_before', windows.window_days + windows.baseline_days + {{ days_to_judge() }},
       windows.window_days + {{ days_to_judge() }}, null),
      ('open_before', windows.window_days + windows.baseline_days + {{ days_to_judge() }},
       windows.window_days + {{ days_to_judge() }}, windows.window_days)
    ) as ranges (what, days_from, days_until, known_later)
  )
{%- endmacro %}

{#- Days that an authority has to judge a deferral before it counts as left open. -#}
{% macro days_to_judge() -%} 7 {%- endmacro %}
