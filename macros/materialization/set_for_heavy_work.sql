{#- Settings of one large model's transaction. jit is off: compiling such long expressions costs more than it saves.
    costly_rows: rows cost more than the planner believes (unpacking JSON), so even an increment is worth a second
    process; memoize is off, as no look-up repeats.
    joins_by_key: joins by agent, as-of and window, which the planner takes for independent, expecting one row where
    there are tens of thousands. Nested loops would never end, merges would compare all rows of an agent; hashes of the
    whole key do neither. -#}
{% macro set_for_heavy_work(costly_rows=false, joins_by_key=false) -%}
  {%- set memory = setting('scoring_work_mem') -%}
  {%- set settings = {'work_mem': memory, 'maintenance_work_mem': memory, 'jit': 'off'} -%}
  {%- if costly_rows -%}
    {%- do settings.update({
        'enable_memoize': 'off', 'min_parallel_index_scan_size': 0, 'parallel_setup_cost': 100, 'parallel_tuple_cost': 0.01,
    }) -%}
  {%- endif -%}
  {%- if joins_by_key -%}
    {%- do settings.update({'enable_nestloop': 'off', 'enable_mergejoin': 'off'}) -%}
  {%- endif -%}
  {{ set_local(settings) }}
{%- endmacro %}
