{#- dbt's macro, for a table that does not stand on the coordinator alone: an empty one is made first and distributed, so
    that its rows go from worker to worker. A table that an increment fills first is an ordinary one, since temporary ones
    cannot be distributed; the strategy drops it. Where a root project has dbt call it for models of its own, these are
    dbt's affair. -#}
{% macro postgres__create_table_as(temporary, relation, sql) %}
  {%- if model.package_name != 'ciris_scoring' or placement(model.name) == 'local' or (temporary and not is_filled_first()) -%}
    {{ return(dbt.postgres__create_table_as(temporary, relation, sql)) }}
  {%- endif -%}
  {%- set place = placement(model.name) -%}
  {%- set has_contract = config.get('contract').enforced and not temporary -%}
  create {% if temporary %}unlogged {% endif %}table {{ relation }}
  {%- if has_contract %}
    {{ get_assert_columns_equivalent(sql) }}
    {{ get_table_columns_and_constraints() }};
  {%- else %} as
    {{ sql }}
  {% if place == 'agent' %}with no data{% endif %};
  {%- endif %}
  {%- if place == 'reference' %}
  {%- if has_contract %}
  insert into {{ relation }} ({{ adapter.dispatch('get_column_names', 'dbt')() }})
    {{ get_select_subquery(sql) }};
  {%- endif %}
  select create_reference_table({{ literal(relation) }});
  {%- else %}
  {{ distribute_by_agent(relation) }}
  insert into {{ relation }}
    {%- if has_contract %} ({{ adapter.dispatch('get_column_names', 'dbt')() }}) {{ get_select_subquery(sql) }}
    {%- else %}
    {{ sql }}
    {%- endif %};
  {%- endif %}
{% endmacro %}

{#- Whether an increment of this model fills an ordinary table first, which its strategy drops. Logs and what Python writes
    get no rows from dbt, and can do with a temporary one. -#}
{% macro is_filled_first() %}
  {{ return(placement(model.name) != 'local' and config.get('incremental_strategy') == 'replace_range') }}
{% endmacro %}

{#- dbt's macro. -#}
{% macro postgres__make_temp_relation(base_relation, suffix) %}
  {%- if model.package_name != 'ciris_scoring' or not is_filled_first() -%}
    {{ return(dbt.postgres__make_temp_relation(base_relation, suffix)) }}
  {%- endif -%}
  {{ return(postgres__make_relation_with_suffix(base_relation, suffix, dstring=True)) }}
{% endmacro %}

{#- dbt's macro: a unique index of a distributed table holds the column that it is distributed by. An agent as it was
    recorded may be longer than an index takes: there the index is not unique, and the key is a test's. -#}
{% macro postgres__get_create_index_sql(relation, index_dict) %}
  {%- set column = distribution_column(model.name) -%}
  {%- if model.package_name == 'ciris_scoring' and placement(model.name) == 'agent' and index_dict.get('unique')
      and column not in index_dict['columns'] -%}
    {%- set index_dict = dict(index_dict, unique=false) if column == 'agent_key'
        else dict(index_dict, columns=index_dict['columns'] + [column]) -%}
  {%- endif -%}
  {{ return(dbt.postgres__get_create_index_sql(relation, index_dict)) }}
{% endmacro %}
