{{ config(materialized='replace_range') }}
{#- Scoring parameters with the values of this run, so that Python and people read the values that SQL used. Grain:
    parameter. -#}
-- depends_on: {{ ref('int_scoring_run') }}
{% for name, definition in scoring_parameter_definitions().items() %}
{%- set default_text = scoring_parameter_text(name, definition['default']) %}
select
    '{{ name }}' as parameter_name,
    {{ 'null' if definition.get('secret') else "'" ~ scoring_parameter_text(name) ~ "'" }}::text as parameter_value,
    '{{ default_text }}' as default_value,
    '{{ scoring_parameter_range(name) }}' as allowed_range,
    '{{ definition["meaning"] | replace("'", "''") }}' as meaning,
    '{{ definition["section"] }}' as specification_section
{% if not loop.last %}union all{% endif %}
{% endfor %}
