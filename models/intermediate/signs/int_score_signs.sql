{#- The signs that look at the scores of traces, to three decimals (certainty.md §5), against the fleet's median in the
    same window. repeated_records: pairs of traces with equal plausibility, alignment and coherence, over what chance gives,
    the product of the shares of pairs in which each alone is equal; z is that of a Poisson variable with the mean that chance
    gives, times the median where that is above 1. constant_value: the share of traces that have the commonest
    plausibility.
    Grain: agent, as-of, window and sign where one is raised. Nothing is null. -#}
{%- set repeated = sign_thresholds()['repeated_records'] -%}
with counted as (

    select
        agent_id_hash,
        as_of,
        window_days,
        n_plausibilities,
        n_commonest_plausibility,
        n_triples,
        equal_pairs,
        n_triples * (n_triples - 1) / 2.0::double precision as n_pairs,
        equal_plausibilities::double precision * equal_alignments * equal_coherences as equal_product
    from {{ ref('int_window_statistics') }}
    where {{ in_scored_range('as_of') }}

),

-- Where no pair has one of the scores in common, chance gives none and there is none.
repeating as (

    select
        agent_id_hash,
        as_of,
        window_days,
        n_triples,
        equal_pairs,
        equal_product / n_pairs ^ 2 as n_by_chance,
        equal_pairs * n_pairs ^ 2 / equal_product as over_chance
    from counted
    where
        n_triples >= {{ repeated['of'] }}
        and equal_product > 0

),

repeating_medians as (

    select
        as_of,
        window_days,
        percentile_cont(0.5) within group (order by over_chance) as over_chance
    from repeating
    group by
        as_of,
        window_days

),

repeated_records as (

    select
        repeating.agent_id_hash,
        repeating.as_of,
        repeating.window_days,
        'repeated_records' as sign,
        repeating.over_chance as value,
        medians.over_chance as comparison_value,
        repeating.equal_pairs / sqrt(repeating.n_by_chance * greatest(medians.over_chance, 1))
        - sqrt(repeating.n_by_chance * greatest(medians.over_chance, 1)) as z,
        format(
            'Of %s traces %s pairs have the same plausibility, alignment and coherence, %s times what chance gives; '
            'the fleet''s median: %s times.',
            repeating.n_triples, repeating.equal_pairs, round(repeating.over_chance::numeric, 1),
            round(medians.over_chance::numeric, 1)
        ) as message
    from repeating
    inner join repeating_medians as medians using (as_of, window_days)
    where
        repeating.equal_pairs >= {{ repeated['found'] }}
        and repeating.over_chance >= {{ repeated['over_chance'] }}
        and repeating.over_chance >= {{ repeated['over_median'] }} * medians.over_chance

),

constant as (

    select
        agent_id_hash,
        as_of,
        window_days,
        n_plausibilities,
        n_commonest_plausibility,
        n_commonest_plausibility / n_plausibilities::double precision as found_share
    from counted
    where n_plausibilities > 0

),

constant_medians as (

    select
        as_of,
        window_days,
        percentile_cont(0.5) within group (order by found_share) as median_share
    from constant
    where n_plausibilities >= {{ least_baseline() }}
    group by
        as_of,
        window_days

),

constant_beside_medians as (

    select
        constant.*,
        medians.median_share,
        {{ excess_z(
            'constant.n_commonest_plausibility', 'constant.n_plausibilities',
            'medians.median_share * ' ~ median_weight() ~ ' * constant.n_plausibilities',
            '(' ~ median_weight() ~ ' * constant.n_plausibilities)'
        ) }} as z
    from constant
    inner join constant_medians as medians using (as_of, window_days)

),

constant_value as (

    select
        agent_id_hash,
        as_of,
        window_days,
        'constant_value' as sign,
        found_share as value,
        median_share as comparison_value,
        z,
        format(
            '%s of %s traces have the same plausibility (%s); the fleet''s median: %s.',
            n_commonest_plausibility, n_plausibilities, {{ percent('found_share') }}, {{ percent('median_share') }}
        ) as message
    from constant_beside_medians
    where {{ is_sign_raised(
        ['constant_value'], "'constant_value'", 'n_commonest_plausibility', 'found_share - median_share', 'z'
    ) }}

),

signs as (

    select * from repeated_records
    union all
    select * from constant_value

)

select
    agent_id_hash,
    as_of,
    window_days,
    sign,
    value,
    comparison_value,
    'fleet_median' as compared_with,
    z,
    message
from signs
