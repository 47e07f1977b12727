{#- A label to chart an agent by: Haven (aff0528b), and where an earlier agent has that one, Haven (aff0528b91e2a6c3 #2)
    with the whole hash. Without a name, (aff0528b). -#}
{% macro agent_label(agent_id_hash, agent_name, namesake_number) -%}
  (coalesce({{ agent_name }} || ' (', '(') || case
    when {{ namesake_number }} = 1 then left({{ agent_id_hash }}, {{ label_characters() }})
    else {{ agent_id_hash }} || ' #' || {{ namesake_number }}
  end || ')')
{%- endmacro %}

{#- Characters of a hash that stand for it in a label. -#}
{% macro label_characters() -%} {{ constant('label_characters') }} {%- endmacro %}
