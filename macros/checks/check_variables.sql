{#- The variables of the project and what each may be. kinds: boolean; integer, from minimum on; number, from minimum to
    maximum; choice; name, of a schema or table; size; time; set_by_us, by ciris-scoring alone; checked_elsewhere, by a
    macro of its own. optional: may be null. -#}
{% macro variable_definitions() %}
  {{ return({
    'source': {'kind': 'choice', 'choices': constant('tables_of_shape', {}) | list, 'optional': true},
    'source_schema': {'kind': 'name'},
    'covenant_traces_table': {'kind': 'name'},
    'wbd_deferrals_table': {'kind': 'name'},
    'covenant_public_keys_table': {'kind': 'name'},
    'covenant_trace_batches_table': {'kind': 'name'},
    'as_of': {'kind': 'time', 'optional': true},
    'traces_from': {'kind': 'time'},
    'scoring_period': {'kind': 'choice', 'choices': constant('period_hours', {}) | list},
    'scoring_parameters': {'kind': 'checked_elsewhere'},
    'verdict_threshold': {'kind': 'checked_elsewhere'},
    'lookback_periods': {'kind': 'integer', 'minimum': 0, 'words': 'periods', 'optional': true},
    'late_detection_periods': {'kind': 'integer', 'minimum': 0, 'words': 'periods'},
    'allow_rescoring': {'kind': 'boolean'},
    'backfill': {'kind': 'set_by_us', 'type': 'mapping'},
    'attempt': {'kind': 'set_by_us', 'type': 'mapping'},
    'lock_holder_pid': {'kind': 'set_by_us', 'type': 'integer'},
    'lock_wait_seconds': {'kind': 'number', 'minimum': 0, 'maximum': 86400, 'words': 'seconds'},
    'scoring_work_mem': {'kind': 'size'},
    'distribution': {'kind': 'choice', 'choices': ['none', 'citus']},
    'time_spine': {'kind': 'boolean'},
  }) }}
{% endmacro %}

{#- The fault of a variable's value with its remedy; none if it has none. Text is not taken for a boolean or a
    number: 'false' would count as true. -#}
{% macro variable_fault(name) %}
  {%- set value, definition = setting(name), variable_definitions()[name] -%}
  {%- set kind = definition['kind'] -%}
  {%- if value is none and definition.get('optional') -%} {{ return(none) }} {%- endif -%}
  {%- if kind == 'boolean' -%}
    {%- set fits, allowed = value is boolean, 'true or false, without quotes' -%}
  {%- elif kind == 'integer' -%}
    {%- set fits = value is integer and value is not boolean and value >= definition['minimum'] -%}
    {%- set allowed = 'a whole number of ' ~ definition['minimum'] ~ ' or more ' ~ definition['words'] ~ ', without quotes' -%}
  {%- elif kind == 'number' -%}
    {%- set fits = value is number and value is not boolean and definition['minimum'] <= value <= definition['maximum'] -%}
    {%- set allowed = 'a number of ' ~ definition['words'] ~ ' from ' ~ definition['minimum'] ~ ' to ' ~ definition['maximum'] -%}
  {%- elif kind == 'choice' -%}
    {#- There are no choices where the package is missing, which check_package reports. -#}
    {%- set fits = value is string and (value in definition['choices'] or not definition['choices']) -%}
    {%- set allowed = definition['choices'] | join(' or ') -%}
  {%- elif kind == 'name' -%}
    {%- set fits, allowed = value is string and value == value.strip() and value != '', 'a name, in quotes if it looks like a number' -%}
  {%- elif kind == 'size' -%}
    {%- set fits = value is string and modules.re.match('^[1-9][0-9]*(kB|MB|GB)$', value) is not none -%}
    {%- set allowed = 'a size such as 256MB' -%}
  {%- elif kind == 'set_by_us' -%}
    {%- set types = {'mapping': value is mapping, 'integer': value is integer and value is not boolean} -%}
    {%- set fits = value is none or (types[definition['type']] and setting('lock_holder_pid') is integer) -%}
    {%- if not fits -%}
      {{ return("Variable ciris_" ~ name ~ " is " ~ shown(value) ~ ", but it is set by ciris-scoring alone. Leave it out"
        ~ ("; to score as-ofs again: ciris-scoring run --from TIME --to TIME." if name == 'backfill' else ".")) }}
    {%- endif -%}
  {%- elif kind == 'time' -%} {%- set fits = time_variable(name) is not none -%}
  {%- else -%} {%- set fits = true -%}
  {%- endif -%}
  {{ return(none if fits else "Variable ciris_" ~ name ~ " is " ~ shown(value) ~ ", but must be " ~ allowed
    ~ ("; or leave it out." if definition.get('optional') else ".")) }}
{% endmacro %}

{#- The value of a variable that the project reads while it is parsed, before check_variables; refuses a wrong one. -#}
{% macro valid_setting(name) %}
  {%- set fault = variable_fault(name) -%}
  {%- if fault is not none -%} {{ exceptions.raise_compiler_error(fault) }} {%- endif -%}
  {{ return(setting(name)) }}
{% endmacro %}

{#- Refuses wrong values and unknown names of variables, all at once. -#}
{% macro check_variables() %}
  {%- set faults, known = [], ['ciris_unit_tests'] -%}
  {%- for name in variable_definitions() -%}
    {%- do known.append('ciris_' ~ name) -%}
    {%- set fault = variable_fault(name) -%}
    {%- if fault is not none -%} {%- do faults.append(fault) -%} {%- endif -%}
  {%- endfor -%}
  {%- for name, nearest in adapter.ciris_scoring_unknown_variables(known).items() -%}
    {%- do faults.append("There is no variable " ~ name ~ "; " ~ ("did you mean " ~ nearest ~ "?" if nearest else
        "docs/configuration.md lists them.") ~ " Correct it, or take it out; a variable of another project belongs below "
        ~ "that project's name under vars.") -%}
  {%- endfor -%}
  {%- if faults -%} {{ refuse(faults | join(' ')) }} {%- endif -%}
{% endmacro %}
