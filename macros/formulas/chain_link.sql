{#- Whether a trace's link to the agent's previous numbered trace is valid (scoring.md §4). The agent's first numbered
    trace needs no predecessor, only its hash. The order of the tests keeps the subtraction from overflowing. -#}
{% macro is_link_valid(has_entry_hash, sequence_number, previous_sequence_number) -%}
  case
    when not {{ has_entry_hash }} or {{ sequence_number }} is null then false
    when {{ previous_sequence_number }} is null then true
    when {{ sequence_number }} > {{ previous_sequence_number }}
      then {{ sequence_number }} - 1 = {{ previous_sequence_number }}
    else false
  end
{%- endmacro %}

{#- Whether the number of a row counts as used in the agent's log. Of an outcome that came too late to be scored it does:
    the trace after it continues the chain. -#}
{% macro is_in_chain() -%} {{ 'true' if is_trace_one_row() else 'is_counted' }} {%- endmacro %}

{#- The numbers alone, hash or not: jumped forward, went back, repeated. -#}
{% macro is_chain_gap(sequence_number, previous_sequence_number) -%}
  case
    when {{ sequence_number }} > {{ previous_sequence_number }}
      then {{ sequence_number }} - 1 > {{ previous_sequence_number }}
    else false
  end
{%- endmacro %}
