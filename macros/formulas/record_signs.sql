{#- The verdicts whose absence is a sign (certainty.md §5), in the order of the letters of `reporting`. -#}
{% macro record_sign_fields() %}
  {{ return(['action_was_overridden', 'idma_fragility_flag', 'coherence_passed', 'action_success',
             'csdma_plausibility_score', 'conscience_passed']) }}
{% endmacro %}

{#- A letter per verdict of a trace: r reported (a value that cleaning set aside was sent), c null though the JSON
    components hold it, u null though the action is one that is checked, - null by design. Agents of every version check
    coherence for SPEAK and TOOL, some for DEFER, and leave nothing else out by design. A component is unpacked for a null
    alone. -#}
{% macro reporting() -%}
  {%- set fields = record_sign_fields() -%}
  case
    when num_nulls({{ fields | join(', ') }}) = 0 then '{{ 'r' * fields | length }}'
    else concat(
      {% for field in fields %}
      case
        when {{ field }} is not null then 'r'
        {% if field == 'csdma_plausibility_score' %}
        when is_out_of_range_{{ field }} then 'r'
        {% endif %}
        {% if scoring_parameter('replay_enabled') %}
        when not {{ is_json_absent(components_of_columns()[field]) }} then 'c'
        {% endif %}
        {% if field == 'coherence_passed' %}
        when selected_action in ('SPEAK', 'TOOL') then 'u'
        else '-'
        {% else %}
        else 'u'
        {% endif %}
      end{% if not loop.last %},{% endif %}
      {% endfor %}
    )
  end
{%- endmacro %}

{#- A trace that fills a window and says little: of an action that no conscience looks at, or without a plausibility score. -#}
{% macro is_trivial(selected_action, csdma_plausibility_score) -%}
  ({{ csdma_plausibility_score }} is null or {{ selected_action }} in ('TASK_COMPLETE', 'RECALL', 'OBSERVE', 'REJECT')) is true
{%- endmacro %}

{#- Audit numbers begin again at 1 while the agent goes on. -#}
{% macro is_renumbered(audit_sequence_number, previous_audit_sequence_number) -%}
  coalesce({{ audit_sequence_number }} = 1 and {{ previous_audit_sequence_number }} > 1, false)
{%- endmacro %}

{#- The three scores that copies of a record share (certainty.md §5), in thousandths and as one integer, as each is in
    [0, 1]; 1001 in place of one that is absent. Null without a plausibility. steps/alike.py takes them apart. -#}
{% macro score_triple() -%}
  ((round(csdma_plausibility_score * 1000) * 1002 + coalesce(round(dsdma_domain_alignment * 1000), 1001)) * 1002
   + coalesce(round(coherence_level * 1000), 1001))::integer
{%- endmacro %}

{#- What of how many traces each sign that counts traces looks at, in columns of int_window_sums: sign, field (none where it
    has none), found, of. -#}
{% macro counted_signs() %}
  {%- set counts = [] -%}
  {%- for field in record_sign_fields() -%}
    {%- set place = '[' ~ loop.index ~ ']' -%}
    {%- do counts.append({'sign': 'contradicted_null', 'field': field, 'found': 'n_contradicted' ~ place, 'of': 'n_traces'}) -%}
    {%- do counts.append({'sign': 'unreported', 'field': field, 'found': 'n_unreported' ~ place, 'of': 'n_checked' ~ place}) -%}
  {%- endfor -%}
  {%- for sign, found in {'shared_key': 'n_shared_key', 'renumbered': 'n_renumbered', 'key_turnover': 'n_new_keys',
                          'volume_jump': 'n_trivial'}.items() -%}
    {%- do counts.append({'sign': sign, 'field': none, 'found': found, 'of': 'n_traces'}) -%}
  {%- endfor -%}
  {{ return(counts) }}
{% endmacro %}

{#- When a sign is raised; docs/signs.md has how often honest agents do. found: least number of what is counted. chance:
    greatest probability that chance finds as many. excess: least difference of the shares. z: least number of standard
    errors of it. ratio: least logarithm of the ratio of traces per day. of: least number of traces; over_chance and
    over_median: how many times as much as chance gives, and as the fleet's median, at least. Where only found is given, no
    honest agent has one. A share that nobody else has needs three traces to be no accident; a key may be replaced now and
    then; a fleet that grows is no sign, unless by trivial traces. -#}
{% macro sign_thresholds() %}
  {{ return({
    'contradicted_null': {'found': 1},
    'shared_key': {'found': 1},
    'renumbered': {'found': 1},
    'unreported': {'found': 3, 'chance': 1e-4},
    'key_turnover': {'found': 3, 'z': 1.645},
    'repeated_records': {'found': 10, 'of': 100, 'over_chance': 3, 'over_median': 2},
    'constant_value': {'found': 10, 'excess': 0.25, 'z': 3},
    'volume_jump': {'found': 10, 'excess': 0.25, 'z': 3, 'ratio': 0.69},
    'deferrals_left_open': {'found': 3, 'excess': 0.15, 'z': 2},
    'deferrals_escalated': {'found': 3, 'excess': 0.15, 'z': 2.5},
    'phase_churn': {'found': 6, 'share': 0.5},
  }) }}
{% endmacro %}

{#- SQL for whether a row passes the thresholds of its sign. signs: those it can be of; sign: the column with its name.
    Without excess, z, ratio or expected, the number that chance finds (SQL, all nullable), these are not looked at. -#}
{% macro is_sign_raised(signs, sign, found, excess=none, z=none, ratio=none, expected=none) -%}
  case
    {%- for name in signs %}
    {%- set least = sign_thresholds()[name] %}
    when {{ sign }} = '{{ name }}' then {{ found }} >= {{ least['found'] }}
      {%- for value, threshold in [(excess, 'excess'), (z, 'z'), (ratio, 'ratio')] if value and threshold in least %}
      and {{ value }} >= {{ least[threshold] }}
      {%- endfor %}
      {%- if expected and 'chance' in least %}
      and {{ is_beyond_chance(found, expected, least['chance']) }}
      {%- endif %}
    {%- endfor %}
  end
{%- endmacro %}

{#- SQL for whether a Poisson variable of this mean is as large as x with at most this probability (certainty.md §5). It is
    summed up from x on until nothing is left to add, and only where x alone is not more probable already; x is 3 or
    more, which Stirling's series is exact enough for. A term that PostgreSQL could not hold counts as e^-700. -#}
{% macro is_beyond_chance(x, mean, chance) -%}
  case
    when {{ x }} > {{ mean }} and {{ poisson(x, mean) }} <= {{ chance }} then (
      select sum({{ poisson('k', mean) }})
      from generate_series(({{ x }})::bigint, ({{ x }} + 20 + 10 * sqrt({{ x }}))::bigint) as terms (k)
    ) <= {{ chance }}
    else false
  end
{%- endmacro %}

{#- The probability that a Poisson variable of this mean is k. -#}
{% macro poisson(k, mean) -%}
  exp(greatest({{ k }} * ln({{ mean }}) - {{ mean }} - {{ ln_factorial(k) }}, -700))
{%- endmacro %}

{#- ln k! by Stirling's series, to 3e-7 for k of 3 and more. -#}
{% macro ln_factorial(k) -%}
  (
    ({{ k }} + 0.5) * ln({{ k }}::double precision) - {{ k }} + 0.5 * ln(2 * pi())
    + 1 / (12.0 * {{ k }}) - 1 / (360.0 * {{ k }} ^ 3) + 1 / (1260.0 * {{ k }} ^ 5)
  )
{%- endmacro %}

{#- The fleet's median as the share that is expected of an agent; at least what honest agents leave out by accident. -#}
{% macro expected_of_the_fleet(median_share) -%}
  case when {{ median_share }} is not null then greatest({{ median_share }}, 0.005) end
{%- endmacro %}

{#- SQL for what a row is compared with: own_baseline where there is one; fleet_median else, and where the baseline itself
    would raise the sign against the median, for a record may have been polished from its first day. -#}
{% macro sign_comparison(signs, sign, has_baseline, baseline_found, baseline_of, fleet_share) -%}
  {%- set excess = baseline_found ~ ' / ' ~ baseline_of ~ '::double precision - ' ~ fleet_share -%}
  {%- set median_of = '(' ~ median_weight() ~ ' * ' ~ baseline_of ~ ')' -%}
  {%- set compared = [] -%}
  {%- for name in signs if sign_thresholds()[name] | length > 1 -%} {%- do compared.append(name) -%} {%- endfor -%}
  case
    when not {{ has_baseline }} then 'fleet_median'
    when {{ is_sign_raised(
        compared, sign, baseline_found, excess,
        z=excess_z(baseline_found, baseline_of, fleet_share ~ ' * ' ~ median_of, median_of),
        expected='(' ~ baseline_of ~ ' * ' ~ expected_of_the_fleet(fleet_share) ~ ')'
    ) }} then 'fleet_median'
    else 'own_baseline'
  end
{%- endmacro %}

{#- Of how many a baseline must consist to be compared with; below it the fleet's median takes its place. -#}
{% macro least_baseline() -%} 30 {%- endmacro %}

{#- By how many standard errors the share x/n exceeds y/m: two proportions, pooled; 0 where both are 0 or both are 1. -#}
{% macro excess_z(x, n, y, m) -%}
  {%- set pooled = '((' ~ x ~ ' + ' ~ y ~ ') / (' ~ n ~ ' + ' ~ m ~ ')::double precision)' -%}
  case
    when {{ pooled }} > 0 and {{ pooled }} < 1 then
      ({{ x }} / {{ n }}::double precision - {{ y }} / {{ m }}::double precision)
      / sqrt({{ pooled }} * (1 - {{ pooled }}) * (1 / {{ n }}::double precision + 1 / {{ m }}::double precision))
    else 0
  end
{%- endmacro %}

{#- SQL for a share as people read it, in per cent. -#}
{% macro percent(share) -%}
  round(100 * ({{ share }})::numeric, 1) || ' %'
{%- endmacro %}

{#- SQL for what a sign that counts traces says, over the columns of int_counted_signs. -#}
{% macro counted_sign_message() -%}
  case
    when sign = 'contradicted_null' then format(
      '%s is missing in %s of %s traces whose components hold it.', field, n_found, n_of
    )
    when sign = 'unreported' then format(
      '%s is missing in %s of %s traces that should report it (%s); %s: %s.',
      field, n_found, n_of, {{ percent('found_share') }}, {{ compared_with_text() }}, {{ percent('other_share') }}
    )
    when sign = 'shared_key' then format(
      '%s of %s traces are signed with a key that another agent used first.', n_found, n_of
    )
    when sign = 'renumbered' then format(
      'Audit numbers begin again at 1, %s times, while the agent goes on.', n_found
    )
    when sign = 'key_turnover' then format(
      '%s new signing keys in %s days; %s: %s in as many traces.',
      n_found, window_days, {{ compared_with_text() }}, round((other_share * n_of)::numeric, 1)
    )
    when sign = 'volume_jump' then format(
      '%s traces a day, %s of them trivial; %s: %s a day, %s.',
      round(traces_per_day::numeric, 1), {{ percent('found_share') }}, {{ compared_with_text() }},
      round(other_traces_per_day::numeric, 1), {{ percent('other_share') }}
    )
  end
{%- endmacro %}

{#- SQL for what a row is compared with, in words. -#}
{% macro compared_with_text() -%}
  case when compared_with = 'own_baseline' then 'its own baseline' else 'the fleet''s median' end
{%- endmacro %}

{#- Days that an authority has to judge a deferral before it counts as left open. -#}
{% macro days_to_judge() -%} 7 {%- endmacro %}

{#- As least_baseline, of deferrals, which are few. -#}
{% macro least_deferrals() -%} 5 {%- endmacro %}

{#- How many times the window's own number of traces or deferrals the fleet's median stands for in a z: it rests on many
    agents, and is surer than the share of one. -#}
{% macro median_weight() -%} 4 {%- endmacro %}
