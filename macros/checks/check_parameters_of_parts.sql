{#- A part of the project needs the parameters, windows, categories and outcomes of the last run; else scores of two
    parameter sets mix. They differ if variables changed, or if a refused run has written its own. -#}
{% macro check_parameters_of_parts(models) %}
  {%- set last = continued_run(models) -%}
  {%- if last is none -%} {{ return('') }} {%- endif -%}
  {%- set parameters = relation_as_left('int_scoring_parameters') -%}
  {%- set seeds = [] -%}
  {%- for name in ['scoring_windows', 'capacity_categories', 'deferral_outcomes'] -%}
    {%- do seeds.append(relation_as_left(name)) -%}
  {%- endfor -%}
  {%- if parameters is none or none in seeds -%} {{ return('') }} {%- endif -%}
  {%- set in_force = [] -%}
  {%- for name in scoring_parameter_definitions() -%}
    {%- do in_force.append("(" ~ literal(name) ~ ", " ~ literal(local_md5(scoring_parameter_text(name))) ~ ")") -%}
  {%- endfor -%}
  {%- set rows = run_query("
    select
      " ~ parameter_set_id(parameters, *seeds) ~ " = " ~ literal(last['parameter_set_id']) ~ "
      and not exists (
        select 1 from " ~ parameters ~ " where (parameter_name, value_digest) not in (" ~ in_force | join(', ') ~ ")
      ) as is_the_same") -%}
  {%- if not rows[0][0] -%}
    {%- do refuse(
      "A part of schema " ~ target.schema ~ " can only be built with the parameters of the last run (parameter_set_id "
      ~ last['parameter_set_id'] ~ "), but they have changed since, or a refused run has written others. Go back to those of "
      ~ "the last run, and run from the beginning: ciris-scoring run (in plain dbt: dbt build).") -%}
  {%- endif -%}
{% endmacro %}
