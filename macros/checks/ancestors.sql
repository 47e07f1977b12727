{#- Return the given unique ids and the unique ids of their ancestors: the nodes and sources that they depend on,
    directly or not. -#}
{% macro with_ancestors(unique_ids) %}
  {%- set found = unique_ids | list -%}
  {%- for unique_id in found if unique_id in graph.nodes -%}
    {%- for parent in graph.nodes[unique_id].depends_on.nodes if parent not in found -%} {%- do found.append(parent) -%} {%- endfor -%}
  {%- endfor -%}
  {{ return(found) }}
{% endmacro %}

{#- From the given unique ids, return int_scoring_run and the nodes that depend on it. -#}
{% macro that_follow_run(unique_ids) %}
  {%- set following = [] -%}
  {%- for unique_id in unique_ids if 'model.ciris_scoring.int_scoring_run' in with_ancestors([unique_id]) -%}
    {%- do following.append(unique_id) -%}
  {%- endfor -%}
  {{ return(following) }}
{% endmacro %}
