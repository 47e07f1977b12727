{#- The variables of the project and their kinds. integer, number: between minimum and maximum. time: in the year
    minimum or later. share: in [0, 1]. probability: in (0, 1). name: name of a schema or table. set_by_us: set by
    ciris-scoring only. parameters: checked by check_scoring_parameters. optional: may be null. -#}
{% macro variable_definitions() %}
  {{ return({
    'source': {'kind': 'choice', 'choices': constant('tables_of_shape', {}) | list, 'optional': true},
    'source_schema': {'kind': 'name'},
    'covenant_traces_table': {'kind': 'name'},
    'wbd_deferrals_table': {'kind': 'name'},
    'covenant_public_keys_table': {'kind': 'name'},
    'covenant_trace_batches_table': {'kind': 'name'},
    'as_of': {'kind': 'time', 'optional': true},
    'traces_from': {'kind': 'time', 'minimum': 1970},
    'scoring_period': {'kind': 'choice', 'choices': constant('period_hours', {}) | list},
    'scoring_parameters': {'kind': 'parameters'},
    'verdict_threshold': {'kind': 'share'},
    'grant_probability': {'kind': 'probability'},
    'withhold_probability': {'kind': 'probability'},
    'lookback_periods': {'kind': 'integer', 'minimum': 0, 'maximum': 100000, 'words': 'periods', 'optional': true},
    'late_detection_periods': {'kind': 'integer', 'minimum': 0, 'maximum': 100000, 'words': 'periods'},
    'allow_rescoring': {'kind': 'boolean'},
    'backfill': {'kind': 'set_by_us', 'type': 'mapping'},
    'run_record': {'kind': 'set_by_us', 'type': 'mapping'},
    'lock_holder_pid': {'kind': 'set_by_us', 'type': 'integer'},
    'lock_wait_seconds': {'kind': 'number', 'minimum': 0, 'maximum': 86400, 'words': 'seconds'},
    'scoring_work_mem': {'kind': 'size'},
    'distribution': {'kind': 'choice', 'choices': ['none', 'citus']},
    'time_spine': {'kind': 'boolean'},
  }) }}
{% endmacro %}

{#- The fault of a variable's value, or none. Text is not accepted as a boolean: 'false' would be true. -#}
{% macro variable_fault(name) %}
  {%- set value, definition = setting(name), variable_definitions()[name] -%}
  {%- set kind = definition['kind'] -%}
  {%- if value is none and definition.get('optional') -%} {{ return(none) }} {%- endif -%}
  {%- if kind == 'boolean' -%}
    {%- set fits, allowed = value is boolean, 'true or false, without quotes' -%}
  {%- elif kind == 'integer' -%}
    {%- set fits = value is integer and value is not boolean and definition['minimum'] <= value <= definition['maximum'] -%}
    {%- set allowed = 'a whole number of ' ~ definition['words'] ~ ' from ' ~ definition['minimum'] ~ ' to ' ~ definition['maximum']
        ~ ', without quotes' -%}
  {%- elif kind == 'number' -%}
    {%- set fits = value is number and value is not boolean and definition['minimum'] <= value <= definition['maximum'] -%}
    {%- set allowed = 'a number of ' ~ definition['words'] ~ ' from ' ~ definition['minimum'] ~ ' to ' ~ definition['maximum'] -%}
  {%- elif kind == 'share' -%}
    {%- set fits = value is number and value is not boolean and 0 <= value <= 1 -%}
    {%- set allowed = 'a number in [0, 1], such as 0.6. Correct it in dbt_project.yml or in --vars' -%}
  {%- elif kind == 'probability' -%}
    {%- set fits = value is number and value is not boolean and 0 < value < 1 -%}
    {%- set allowed = 'a number between 0 and 1, such as 0.74. Correct it in dbt_project.yml or in --vars' -%}
  {%- elif kind == 'choice' -%}
    {#- Without the Python package the choices are unknown; check_package reports that it is missing. -#}
    {%- set fits = value is string and (value in definition['choices'] or not definition['choices']) -%}
    {%- set allowed = definition['choices'] | join(' or ') -%}
  {%- elif kind == 'name' -%}
    {%- set fits = value is string and value == value.strip() and modules.re.match('^[^"%]{1,63}$', value) is not none -%}
    {%- set allowed = 'a name, in quotes if it looks like a number, without double quotes and per cent signs' -%}
  {%- elif kind == 'size' -%}
    {#- The range of PostgreSQL's maintenance_work_mem. -#}
    {%- set kilobytes = {'kB': 1, 'MB': 1024, 'GB': 1048576} -%}
    {%- set fits = value is string and modules.re.match('^[1-9][0-9]*(kB|MB|GB)$', value) is not none
        and 1024 <= (value[:-2] | int) * kilobytes[value[-2:]] <= 2147483647 -%}
    {%- set allowed = 'a size from 1MB to 2047GB, such as 256MB' -%}
  {%- elif kind == 'set_by_us' -%}
    {%- set types = {'mapping': value is mapping, 'integer': value is integer and value is not boolean} -%}
    {%- set fits = value is none or (types[definition['type']] and setting('lock_holder_pid') is integer) -%}
    {%- if not fits -%}
      {{ return("Variable ciris_" ~ name ~ " is " ~ shown(value) ~ ", but it is set by ciris-scoring alone. Leave it out"
        ~ ("; to score as-ofs again: ciris-scoring run --from TIME --to TIME." if name == 'backfill' else ".")) }}
    {%- endif -%}
  {%- elif kind == 'time' -%}
    {%- set fits = time_variable(name).year >= definition.get('minimum', 1) -%}
    {%- set allowed = 'in the year ' ~ definition.get('minimum', 1) ~ ' or later, because windows begin long before the first trace' -%}
  {%- else -%} {%- set fits = true -%}
  {%- endif -%}
  {{ return(none if fits else "Variable ciris_" ~ name ~ " is " ~ shown(value) ~ ", but must be " ~ allowed
    ~ ("; or leave it out." if definition.get('optional') else ".")) }}
{% endmacro %}

{#- The value of a variable that is read during parsing, before check_variables. A wrong value is an error. -#}
{% macro valid_setting(name) %}
  {%- set fault = variable_fault(name) -%}
  {%- if fault is not none -%} {{ exceptions.raise_compiler_error(fault) }} {%- endif -%}
  {{ return(setting(name)) }}
{% endmacro %}

{#- Refuses wrong values and unknown names of variables, all in one message. -#}
{% macro check_variables() %}
  {%- set faults, known = [], [] -%}
  {%- for name in variable_definitions() -%}
    {%- do known.append('ciris_' ~ name) -%}
    {%- set fault = variable_fault(name) -%}
    {%- if fault is not none -%} {%- do faults.append(fault) -%} {%- endif -%}
  {%- endfor -%}
  {%- if not faults and setting('withhold_probability') > setting('grant_probability') -%}
    {%- do faults.append("Variable ciris_withhold_probability is " ~ setting('withhold_probability')
        ~ ", but must be at most ciris_grant_probability (" ~ setting('grant_probability')
        ~ "). Correct one of them in dbt_project.yml or in --vars.") -%}
  {%- endif -%}
  {%- for name, nearest in adapter.ciris_scoring_unknown_variables(known).items() -%}
    {%- do faults.append("There is no variable " ~ name ~ "; " ~ ("did you mean " ~ nearest ~ "?" if nearest else
        "docs/configuration.md lists them.") ~ " Correct it, or take it out; a variable of another project belongs below "
        ~ "that project's name under vars.") -%}
  {%- endfor -%}
  {%- if faults -%} {{ refuse(faults | join(' ')) }} {%- endif -%}
{% endmacro %}

{#- Refuses scoring parameters that are unknown, of the wrong kind or out of range, all in one message. -#}
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
