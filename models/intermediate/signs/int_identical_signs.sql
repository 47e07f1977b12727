{#- The sign identical_values (certainty.md §5): of the window's traces that have a plausibility, an alignment and a
    coherence, the share that bears the commonest three (macro score_triple), against the fleet's median: copies of one
    record. Where the commonest of each period together are not enough for the sign, no three of the window are, and
    nothing is counted; the median is looked up where somebody has enough.
    Grain: agent, as-of and window where the sign is raised. Nothing is null. -#}
{%- set least = sign_thresholds()['identical_values'] -%}
with windows as (

    select
        agent_id_hash,
        as_of,
        window_days,
        window_start,
        n_triples,
        n_alike as most_alike
    from {{ ref('int_window_sums') }}
    where
        {{ in_scored_range('as_of') }}
        and n_triples > 0

),

periods as (

    select
        agent_id_hash,
        period_start,
        score_triples
    from {{ ref('int_agent_periods') }}
    where
        period_start >= {{ windows_from() }}
        and period_start < {{ as_of() }}
        and n_triples > 0

),

suspected as (

    select
        agent_id_hash,
        as_of,
        window_days,
        window_start,
        n_triples
    from windows
    where
        most_alike >= {{ least['found'] }}
        and most_alike / n_triples::double precision >= {{ least['excess'] }}

),

suspected_alike as (

    {{ commonest_triples('suspected') }}

),

alike as (

    select
        agent_id_hash,
        as_of,
        window_days,
        n_triples,
        n_alike,
        n_alike / n_triples::double precision as found_share
    from suspected_alike
    where
        n_alike >= {{ least['found'] }}
        and n_alike / n_triples::double precision >= {{ least['excess'] }}

),

windows_with_alike as (

    select distinct
        as_of,
        window_days
    from alike

),

fleet as (

    select
        windows.agent_id_hash,
        windows.as_of,
        windows.window_days,
        windows.window_start,
        windows.n_triples
    from windows
    inner join windows_with_alike using (as_of, window_days)
    where windows.n_triples >= {{ least_baseline() }}

),

fleet_alike as (

    {{ commonest_triples('fleet') }}

),

fleet_medians as (

    select
        as_of,
        window_days,
        percentile_cont(0.5) within group (order by n_alike / n_triples::double precision) as median_share
    from fleet_alike
    group by
        as_of,
        window_days

),

judged as (

    select
        alike.*,
        fleet_medians.median_share as other_share,
        {{ excess_z(
            'alike.n_alike', 'alike.n_triples', 'fleet_medians.median_share * ' ~ median_weight() ~ ' * alike.n_triples',
            '(' ~ median_weight() ~ ' * alike.n_triples)'
        ) }} as z
    from alike
    inner join fleet_medians using (as_of, window_days)

)

select
    agent_id_hash,
    as_of,
    window_days,
    'identical_values' as sign,
    found_share as value,
    other_share as comparison_value,
    'fleet_median' as compared_with,
    z,
    format(
        '%s of %s traces have the same plausibility, alignment and coherence (%s); the fleet''s median: %s.',
        n_alike, n_triples, {{ percent('found_share') }}, {{ percent('other_share') }}
    ) as message
from judged
where {{ is_sign_raised(['identical_values'], "'identical_values'", 'n_alike', 'found_share - other_share', 'z') }}
