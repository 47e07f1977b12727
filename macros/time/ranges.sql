{#- The as-ofs that a run scores, after its cutoff. Bounded above, because a backfill keeps later rows. -#}
{% macro in_scored_range(column) -%}
  ({{ column }} > {{ cutoff() }} and {{ column }} <= {{ run_as_of() }})
{%- endmacro %}

{#- The times (or starts of periods and hours) of the traces that a run judges. -#}
{% macro in_judged_range(column) -%}
  ({{ column }} >= {{ rejudged_from() }} and {{ column }} < {{ run_as_of() }})
{%- endmacro %}

{#- The rows of a model that a run rewrites; meta names the column: scored_range (as-ofs) or judged_range (times). Rows
    after the as-of are leftovers of a dead run and are deleted, except during a backfill. event_range: times of rows that
    are found before the run knows its bounds. own_row: the run's row in the log. -#}
{% macro in_rewritten_range(meta) -%}
  {%- if meta.get('rewritten') == 'own_row' -%}
    run_id = '{{ run_id() }}'
  {%- elif 'event_range' in meta -%}
    {{ 'true' if events_from() is none else meta['event_range'] ~ ' >= ' ~ events_from() }}
  {%- elif bounds_of_run().get('backfill_first') -%}
    {{ in_scored_range(meta['scored_range']) if 'scored_range' in meta else in_judged_range(meta['judged_range']) }}
  {%- elif 'scored_range' in meta -%}
    {{ meta['scored_range'] }} > {{ cutoff() }}
  {%- else -%}
    {{ meta['judged_range'] }} >= {{ rejudged_from() }}
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
