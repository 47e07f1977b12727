{#- Settings of one large model's transaction. jit is off: compiling such long expressions costs more than it saves.
    costly_rows: rows cost more than the planner believes (unpacking JSON), so even an increment is worth a second
    process; memoize is off, as no look-up repeats. -#}
{% macro set_for_heavy_work(costly_rows=false) -%}
  {%- set memory = setting('scoring_work_mem') -%}
  {%- set settings = {'work_mem': memory, 'maintenance_work_mem': memory, 'jit': 'off'} -%}
  {%- if costly_rows -%}
    {%- do settings.update({
        'enable_memoize': 'off', 'min_parallel_index_scan_size': 0, 'parallel_setup_cost': 100, 'parallel_tuple_cost': 0.01,
    }) -%}
  {%- endif -%}
  {{ set_local(settings) }}
{%- endmacro %}
