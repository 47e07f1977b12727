{#- Fails for each key among the rows that the run has written (of seeds and the like: every_row) that is null, that is
    there twice (unique there is unique everywhere, because the range that a run rewrites is part of every such key), or
    whose row holds a null in one of the columns of never_null or a value outside [minimum, maximum] in one of those of
    in_range. NaN sorts above everything and fails too; null is in any range. One test and one scan per model, for a run
    has many models. -#}
{% test sound(model, key, never_null=[], in_range=[], minimum=0, maximum=1, every_row=false) %}
{%- set rules = {'is_null_or_repeated': key ~ ' is null or count(*) > 1'} -%}
{%- if never_null -%}
  {%- do rules.update(has_nulls='bool_or(num_nulls(' ~ never_null | join(', ') ~ ') > 0)') -%}
{%- endif -%}
{%- if in_range -%}
  {%- set values = in_range | join(', ') -%}
  {%- do rules.update(is_out_of_range='coalesce(bool_or(least(' ~ values ~ ') < ' ~ minimum ~ ' or greatest(' ~ values
      ~ ') > ' ~ maximum ~ '), false)') -%}
{%- endif -%}
select
    {{ key }},
    {% for name, condition in rules.items() %}
    {{ condition }} as {{ name }}{% if not loop.last %},{% endif %}
    {% endfor %}
from {{ model }}
{% if not every_row -%}
where {{ in_increment(model) }}
{% endif -%}
group by {{ key }}
having
    {% for condition in rules.values() %}
    {% if not loop.first %}or {% endif %}{{ condition }}
    {% endfor %}
{% endtest %}
