{#- Return the given unique ids and the unique ids of their ancestors: the nodes and sources that they depend on,
    directly or not. -#}
{% macro with_ancestors(unique_ids) %}
  {%- set found = unique_ids | list -%}
  {%- for unique_id in found if unique_id in graph.nodes -%}
    {%- for parent in graph.nodes[unique_id].depends_on.nodes if parent not in found -%} {%- do found.append(parent) -%} {%- endfor -%}
  {%- endfor -%}
  {{ return(found) }}
{% endmacro %}
