{#- Length of an interval in whole microseconds, PostgreSQL's own resolution, so that sums are exact. -#}
{% macro microseconds(duration) -%}
  (extract(epoch from {{ duration }}) * 1000000)::bigint
{%- endmacro %}

{#- scoring.md §5: MTTR in hours, over the episodes recovered in the window and the one open at the as-of, if any
    (open_for is null when there is none). Null when there is no episode. -#}
{% macro mean_time_to_recovery(recovery_microseconds, n_recoveries, open_for) -%}
  (
    ({{ recovery_microseconds }} + coalesce({{ microseconds(open_for) }}, 0))::numeric
    / nullif({{ n_recoveries }} + ({{ open_for }} is not null)::integer, 0)
    / 3600000000
  )::double precision
{%- endmacro %}
