{#- Refuses unknown parameters, wrong kinds and values out of range, all at once. -#}
{% macro check_scoring_parameters() %}
  {%- set definitions = scoring_parameter_definitions() -%}
  {%- set given = setting('scoring_parameters') -%}
  {%- set overrides = {} if given is none else given -%}
  {%- if overrides is not mapping -%}
    {{ refuse(
      "Variable ciris_scoring_parameters is " ~ shown(overrides) ~ ", but must be a dictionary, such as {lambda_c: 5}.") }}
  {%- endif -%}
  {%- set faults = [] -%}
  {%- for name, value in overrides.items() if name not in definitions -%}
    {%- do faults.append(
      "Unknown scoring parameter " ~ shown(name) ~ " (value " ~ shown(value) ~ "). Known are: "
      ~ definitions.keys() | sort | join(', ') ~ ".") -%}
  {%- endfor -%}
  {%- for name, value in overrides.items() if name in definitions -%}
    {%- set definition = definitions[name] -%}
    {%- set is_number = value is number and value is not boolean -%}
    {%- if definition['kind'] == 'boolean' -%} {%- set allowed = value is boolean -%}
    {%- elif definition['kind'] == 'text' -%} {%- set allowed = value is string -%}
    {%- elif definition['kind'] == 'integer' -%}
      {%- set allowed = is_number and value is integer
          and definition['minimum'] <= value and value <= definition['maximum'] -%}
    {%- else -%}
      {%- set allowed = is_number and definition['minimum'] <= value and value <= definition['maximum'] -%}
    {%- endif -%}
    {%- if not allowed -%}
      {%- do faults.append(
        "Scoring parameter " ~ name ~ " is " ~ shown(value) ~ ", but must be "
        ~ {'text': 'text, in quotes', 'boolean': 'true or false'}.get(
            definition['kind'], 'a ' ~ scoring_parameter_range(name))
        ~ ".") -%}
    {%- endif -%}
  {%- endfor -%}
  {%- if faults | length > 0 -%}
    {{ refuse(faults | join(' ') ~ " Correct the variable ciris_scoring_parameters.") }}
  {%- endif -%}
  {%- set weights = ['weight_c', 'weight_i_int', 'weight_r', 'weight_i_inc', 'weight_s'] -%}
  {%- set total = namespace(value=0.0) -%}
  {%- for name in weights -%} {%- set total.value = total.value + scoring_parameter(name) -%} {%- endfor -%}
  {%- if (total.value - 1) | abs > 1e-9 -%}
    {{ refuse(
      "The weights " ~ weights | join(', ') ~ " sum to " ~ total.value ~ ", but must sum to 1 (tolerance 1e-9). "
      ~ "Correct them in the variable ciris_scoring_parameters.") }}
  {%- endif -%}
{% endmacro %}
