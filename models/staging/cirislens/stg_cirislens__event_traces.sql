{#- Traces of today's lens, assembled from their events in the columns and types of covenant_traces. For each event type
    the last event by attempt_index, then time, is used; but an override in any event counts. A trace without an
    outcome counts too, because otherwise decisions that failed before their outcome would be missing. A trace is
    verified if all its events are verified. Scores are rounded as the columns of covenant_traces round them, so
    that a change of lens does not move a score into another bin. Each step is a subquery that selects the volatile
    clock_timestamp(). PostgreSQL does not merge such a subquery, but pushes filters into it, which it does not do
    with a CTE or a subquery with an offset. So a filter on timestamp uses the index (event_type, ts) of the events,
    and unused columns cost nothing. The other events of a trace (of all types for marks of the run kind) are read
    by left joins, which PostgreSQL removes if they are unused; each returns one row by the index (trace_id, ts).
    Grain and key: agent and trace_id. Empty if the source holds whole traces. -#}
{%- set fields = trace_fields() -%}
{%- set json_types = {
  'text': 'string', 'boolean': 'boolean', 'numeric': 'number', 'bigint': 'number', 'jsonb': 'object',
} -%}
{%- set sent, of_head = [], [] -%}
{%- for name, field in fields.items() -%}
  {%- if field.places -%} {%- do sent.append(name) -%} {%- endif -%}
  {%- set column = field.event_column -%}
  {%- if column not in [none, 'signature_verified'] -%} {%- do of_head.append(column) -%} {%- endif -%}
{%- endfor -%}
{%- set incomplete_traces = ref('stg_cirislens__incomplete_event_traces') -%}
{%- set events = source_if_there('trace_events', source_shape()) -%}
{%- if events is none -%}
select
    {% for name, field in fields.items() %}
    null::{{ field.type }} as {{ adapter.quote(name) }},
    {% endfor %}
    null::text as run_kind,
    null::integer as n_events,
    null::text[] as event_issues
where false
{%- else -%}
select
    {% for name, field in fields.items() %}
    {% if name == 'timestamp' %}
    ts as "timestamp",
    {% elif field.zero_needs[1:] %}
    case when {{ name }} <> 0 or {{ name }}_is_measured then {{ name }} end as {{ name }},
    {% else %}
    {{ name }},
    {% endif %}
    {% endfor %}
    {{ run_kind('is_mock', 'is_test') }} as run_kind,
    n_events,
    nullif(array_remove(array[
        case when n_outcomes = 0 then 'no_action_result' end,
        case when n_outcomes > 1 then 'several_action_results' end,
        case when is_shared then 'trace_id_of_two_agents' end,
        {% for type in trace_event_types() if type | lower not in sent %}
        case when {{ type | lower }}_type <> 'object' then 'unreadable_{{ type | lower }}' end,
        {% endfor %}
        {% for name in sent %}
        case when {{ name }}_type <> '{{ json_types[fields[name].type] }}' then 'unreadable_{{ name }}' end
        {%- if not loop.last %},{% endif %}
        {% endfor %}
    ], null), '{}') as event_issues
from (
    select
        clock_timestamp() as typed_at,
        ts,
        is_mock,
        is_test,
        n_events,
        n_outcomes,
        is_shared,
        {% for type in trace_event_types() if type | lower not in sent %}
        {{ type | lower }}_type,
        {% endfor %}
        {% for name, field in fields.items() if name != 'timestamp' %}
        {% set column = field.event_column -%}
        {% if not field.places %}
        {{ column }} as {{ name }}
        {%- else %}
        {% if column %}coalesce({{ "nullif(" ~ column ~ ", '')" if field.type == 'text' else column }}, {% endif -%}
        case when jsonb_typeof({{ name }}_sent) = '{{ json_types[field.type] }}' then
        {%- if field.type == 'jsonb' %} {{ name }}_sent
        {%- elif field.type == 'text' %} {{ name }}_sent #>> '{}'
        {%- elif field.decimals is not none %} round({{ name }}_sent::numeric, {{ field.decimals }})
        {%- else %} {{ name }}_sent::{{ 'numeric' if field.type == 'bigint' else field.type }}
        {%- endif %} end{% if column %}){% endif %} as {{ name }},
        jsonb_typeof({{ name }}_sent) as {{ name }}_type
        {%- endif %}
        {%- if field.zero_needs[1:] %},
        {{ name }}_is_measured
        {%- endif %}
        {%- if not loop.last %},{% endif %}
        {% endfor %}
    from (
        select
            clock_timestamp() as looked_up_at,
            {% for column in of_head %}
            {{ column }},
            {% endfor %}
            is_mock,
            is_test,
            signature_verified,
            n_events,
            n_outcomes,
            is_shared,
            {% for type in trace_event_types() if type | lower not in sent %}
            jsonb_typeof({{ type | lower }}_payload) as {{ type | lower }}_type,
            {% endfor %}
            {% for name in sent %}
            coalesce(
                {% for place in fields[name].places %}
                nullif(nullif({{ place[0] | lower }}_payload #> '{ {{- place[1:] | join(",") -}} }', 'null'), '""')
                {%- if not loop.last %},{% endif %}
                {% endfor %}
            ) as {{ name }}_sent
            {%- if fields[name].zero_needs[1:] %},
            {% set needed = fields[name].zero_needs -%}
            coalesce({{ needed[0] | lower }}_payload #> '{ {{- needed[1:] | join(",") -}} }', 'null') <> 'null'
            as {{ name }}_is_measured
            {%- endif %}
            {%- if not loop.last %},{% endif %}
            {% endfor %}
        from (
            {% for arm in ['plain', 'incomplete'] %}
            select
                clock_timestamp() as collected_at,
                {% for column in of_head %}
                head.{{ column }},
                {% endfor %}
                marks.is_mock,
                marks.is_test,
                marks.n_events,
                parts.signature_verified,
                parts.n_outcomes,
                parts.is_shared,
                {% for type in trace_event_types() %}
                {%- for name in sent if fields[name].any_attempt and fields[name].places[0][0] == type %}
                case
                    when parts.{{ name }}_in_any_attempt
                        then
                            case when jsonb_typeof(parts.{{ type | lower }}_payload) = 'object'
                                then parts.{{ type | lower }}_payload else '{}' end
                            || jsonb_build_object('{{ fields[name].places[0][1] }}', true)
                    else parts.{{ type | lower }}_payload
                end as {{ type | lower }}_payload
                {%- else %}
                parts.{{ type | lower }}_payload
                {%- endfor %}
                {%- if not loop.last %},{% endif %}
                {% endfor %}
            {% if arm == 'plain' %}
            from {{ events }} as head
            {% else %}
            from (
                select distinct
                    agent_id_hash,
                    trace_id
                from {{ incomplete_traces }}
                where is_complete is not true
            ) as incomplete
            cross join lateral (
                select part.*
                from {{ events }} as part
                where
                    part.trace_id = incomplete.trace_id
                    and part.agent_id_hash is not distinct from incomplete.agent_id_hash
                    and {{ is_part_of_trace('part') }}
                order by {{ head_first('part') }}
                limit 1
            ) as head
            {% endif %}
            left join lateral (
                select
                    {% for type in trace_event_types() %}
                    (
                        array_agg(part.payload order by part.attempt_index desc, part.ts desc, part.event_id desc)
                        filter (
                            where part.agent_id_hash is not distinct from head.agent_id_hash
                            and part.event_type = '{{ type }}'
                        )
                    )[1] as {{ type | lower }}_payload,
                    {% endfor %}
                    {% for name in sent if fields[name].any_attempt %}
                    {% set place = fields[name].places[0] -%}
                    bool_or(part.payload #> '{ {{- place[1:] | join(",") -}} }' = 'true') filter (
                        where part.agent_id_hash is not distinct from head.agent_id_hash
                        and part.event_type = '{{ place[0] }}'
                    ) as {{ name }}_in_any_attempt,
                    {% endfor %}
                    bool_and(part.signature_verified)
                    filter (where part.agent_id_hash is not distinct from head.agent_id_hash) as signature_verified,
                    count(*) filter (
                        where part.agent_id_hash is not distinct from head.agent_id_hash
                        and part.event_type = {{ outcome_event() }}
                    ) as n_outcomes,
                    bool_or(part.agent_id_hash is distinct from head.agent_id_hash) as is_shared
                from {{ events }} as part
                where
                    part.trace_id = head.trace_id
                    and {{ is_part_of_trace('part') }}
            ) as parts on true
            left join lateral (
                {{ marks_of_events(events, 'head') }}
            ) as marks on true
            {% if arm == 'plain' %}
            where
                head.event_type = {{ outcome_event() }}
                and not exists (
                    select 1
                    from {{ incomplete_traces }} as incomplete
                    where
                        incomplete.trace_id = head.trace_id
                        and incomplete.agent_id_hash is not distinct from head.agent_id_hash
                        and incomplete.is_complete is not true
                )

            union all

            {% endif %}
            {% endfor %}
        ) as collected
    ) as looked_up
) as typed
{%- endif %}
