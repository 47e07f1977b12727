{#- Refuses a run where another role could run code as the role that scores: by a relation or schema that it owns, by a
    trigger, a rule and the like. Comes before anything is read from our tables or written to them, so nothing is logged.
    The query is in python/ciris_scoring/basics/ownership.py. -#}
{% macro check_ownership() %}
  {%- for fault in ownership_faults() -%}
    {{ exceptions.raise_compiler_error(fault.message ~ ' ' ~ fault.hint) }}
  {%- endfor -%}
  {%- do graph.update({'ownership_checked': invocation_id}) -%}
{% endmacro %}

{#- Objects that another role could misuse: message and hint of each. -#}
{% macro ownership_faults() %}
  {%- set places, faults = [], [] -%}
  {%- for node in graph.nodes.values() if node.package_name == 'ciris_scoring' and node.resource_type in ['model', 'seed'] -%}
    {%- do places.append([node.schema, node.alias]) -%}
  {%- endfor -%}
  {%- for row in run_query(adapter.ciris_scoring_ownership_query(places)) -%}
    {%- do faults.append({'message': row['message'], 'hint': row['remedy']}) -%}
  {%- endfor -%}
  {{ return(faults) }}
{% endmacro %}

{#- Whether check_ownership has passed in this invocation. -#}
{% macro is_ownership_checked() %}
  {{ return(graph.get('ownership_checked') == invocation_id) }}
{% endmacro %}

{#- Whether this invocation reads or writes tables of this project. -#}
{% macro uses_our_tables() %}
  {%- if not execute or flags.WHICH not in ['run', 'build', 'seed', 'test'] or selected_resources is not defined -%}
    {{ return(false) }}
  {%- endif -%}
  {%- set ours = [] -%}
  {%- for unique_id in selected_resources if unique_id.split('.')[1] == 'ciris_scoring' -%}
    {%- do ours.append(unique_id) -%}
  {%- endfor -%}
  {{ return(ours | length > 0 or selected_resources | length == 0) }}
{% endmacro %}

{#- SQL that ends a hook: hooks of other projects, in the same session, get their search path back. -#}
{% macro leave_session() %}
  {{ return('commit; reset search_path') }}
{% endmacro %}
