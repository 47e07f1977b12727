{#- The as-ofs that a run scores, after its cutoff. Bounded above, because a backfill keeps later rows. -#}
{% macro in_scored_range(column) -%}
  ({{ column }} > {{ cutoff() }} and {{ column }} <= {{ run_as_of() }})
{%- endmacro %}

{#- The times (or starts of periods and hours) of the traces that a run judges. -#}
{% macro in_judged_range(column) -%}
  ({{ column }} >= {{ rejudged_from() }} and {{ column }} < {{ run_as_of() }})
{%- endmacro %}

{#- The rows of a model that a run rewrites, by the column that meta.range names: as_of, last_event_at (of rows that are
    found before the run knows its bounds), run_id (the run's row in the log), or a time of traces. Rows after the as-of
    are leftovers of a dead run and are deleted, except during a backfill. -#}
{% macro in_rewritten_range(column) -%}
  {%- if column == 'run_id' -%}
    run_id = '{{ run_id() }}'
  {%- elif column == 'last_event_at' -%}
    {{ 'true' if events_from() is none else column ~ ' >= ' ~ events_from() }}
  {%- elif bounds_of_run().get('backfill_first') -%}
    {{ in_scored_range(column) if column == 'as_of' else in_judged_range(column) }}
  {%- else -%}
    {{ column ~ ' > ' ~ cutoff() if column == 'as_of' else column ~ ' >= ' ~ rejudged_from() }}
  {%- endif -%}
{%- endmacro %}

{#- From when on a run searches events: the lookback, or what a backfill judges. None: all events. -#}
{% macro events_from() %}
  {%- set published = last_publication() if is_incremental() else none -%}
  {%- if published is none -%} {{ return(none) }} {%- endif -%}
  {%- set lookback_from = lookback_start(utc_literal(published['newest_published_as_of']), as_of()) -%}
  {%- set backfill = setting('backfill') -%}
  {{ return("(" ~ lookback_from ~ ")" if backfill is none else
            "least(" ~ lookback_from ~ ", '" ~ backfill['rejudged_from'] ~ "'::timestamptz)") }}
{% endmacro %}
