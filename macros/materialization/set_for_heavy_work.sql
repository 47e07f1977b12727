{#- Settings for the sorts, hashes and indexes of one large model, until the end of its own transaction. Compiling its
    expressions (jit) takes seconds and saves less.
    costly_rows: a row costs far more than the planner believes, as unpacking JSON does, so that even an increment is
    worth a second process. What is looked up for it is not kept for another, which would ask for something else.
    joins_by_key: it joins by agent, as-of and window, which the planner takes for independent and so expects one row
    where there are tens of thousands. Nested loops would never end, and merges compare each row of an agent with each
    other; hashes of the whole key do neither. -#}
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
