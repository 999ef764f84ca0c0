//! The sampler's promises, as properties over random sizes.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const STRATEGIES: [SamplingStrategy; 3] =
    [SamplingStrategy::Random, SamplingStrategy::Sequential, SamplingStrategy::GroupByLength];

fn sampler(
    lengths: &[u32],
    cores: usize,
    global_batch: usize,
    strategy: SamplingStrategy,
    drop_last: bool,
) -> Sampler {
    let batch_per_core = global_batch / cores;
    let config = SamplerConfig { batch_per_core, cores, seed: 42, strategy, drop_last };
    Sampler::new(config, lengths, LengthLadder::new(64, false).unwrap()).unwrap()
}

fn with_seed(sampler: &Sampler, seed: u64) -> Sampler {
    let mut sampler = sampler.clone();
    sampler.config.seed = seed;
    sampler
}

fn positions(sizes: &BatchSizes) -> u32 {
    sizes.get(BatchAxis::Positions) as u32
}

fn lengths() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(2u32..=64, 1..400)
}

proptest! {
    #[test]
    fn shards_are_disjoint_and_complete(
        lengths in lengths(), batch in 1usize..9, cores in 1usize..5, pick in 0usize..3, epoch in 0u64..5,
    ) {
        let plan = sampler(&lengths, cores, batch * cores, STRATEGIES[pick], false).epoch(epoch);
        let mut seen: Vec<u32> = Vec::new();
        for batch_plan in plan.batches() {
            for core in 0..cores {
                prop_assert!(batch_plan.rows_of_core(core).len() <= batch);
                seen.extend(batch_plan.rows_of_core(core));
            }
        }
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..lengths.len() as u32).collect::<Vec<_>>());
    }

    #[test]
    fn drop_last_leaves_only_full_batches_and_repeats_none(
        lengths in lengths(), batch in 1usize..9, cores in 1usize..5, pick in 0usize..3,
    ) {
        let global_batch = batch * cores;
        prop_assume!(lengths.len() >= global_batch);
        let sampler = sampler(&lengths, cores, global_batch, STRATEGIES[pick], true);
        let batches: Vec<BatchPlan> = sampler.epoch(1).batches().collect();
        prop_assert_eq!(batches.len(), lengths.len() / global_batch);
        prop_assert!(batches.iter().all(|plan| plan.rows.len() == global_batch));
        let distinct: BTreeSet<u32> = batches.iter().flat_map(|plan| plan.rows.clone()).collect();
        prop_assert_eq!(distinct.len(), batches.len() * global_batch);
    }

    #[test]
    fn the_global_batch_does_not_depend_on_the_cores(
        lengths in lengths(), quarter in 1usize..5, pick in 0usize..3, epoch in 0u64..3,
    ) {
        let plan = |cores| {
            let epoch = sampler(&lengths, cores, quarter * 4, STRATEGIES[pick], false).epoch(epoch);
            epoch.batches().map(|plan| (positions(&plan.sizes), plan.rows)).collect::<Vec<_>>()
        };
        prop_assert_eq!(plan(1), plan(2));
        prop_assert_eq!(plan(1), plan(4));
    }

    #[test]
    fn random_rows_of_a_step_have_one_order_in_any_number_of_batches(lengths in lengths(), epoch in 0u64..3) {
        let order = |batches: usize| {
            let sampler = sampler(&lengths, 2, 16 / batches, SamplingStrategy::Random, false);
            sampler.in_steps_of(batches).epoch(epoch).order
        };
        prop_assert_eq!(order(1), order(2));
        prop_assert_eq!(order(1), order(4));
    }

    #[test]
    fn a_run_resumes_at_any_batch(lengths in lengths(), pick in 0usize..3, from in 0u64..60) {
        let sampler = sampler(&lengths, 2, 8, STRATEGIES[pick], false);
        let whole: Vec<ScheduledBatch> = sampler.run(0, 60).collect();
        let resumed: Vec<ScheduledBatch> = sampler.run(from, 60).collect();
        prop_assert_eq!(&whole[from as usize..], &resumed[..]);
        prop_assert_eq!(whole.len(), 60);
    }

    #[test]
    fn first_uses_are_those_of_the_run_and_sizes_hold_every_row(
        lengths in lengths(), pick in 0usize..3, from in 0u64..20, total in 0u64..40,
    ) {
        let sampler = sampler(&lengths, 1, 8, STRATEGIES[pick], false);
        let mut seen = BTreeSet::new();
        let mut uses = Vec::new();
        for ScheduledBatch { batch, plan, .. } in sampler.run(from, total) {
            let longest = plan.rows.iter().map(|&row| lengths[row as usize]).max();
            prop_assert!(longest.is_some_and(|longest| longest <= positions(&plan.sizes)));
            if seen.insert(plan.sizes) {
                uses.push((batch, plan.sizes));
            }
        }
        prop_assert_eq!(sampler.first_uses(from..total), uses);
    }

    #[test]
    fn a_fitted_ladder_pads_no_more_and_alike_on_any_cores(
        lengths in lengths(), pick in 0usize..3,
    ) {
        // Ladders are fitted to the batches of this seed.
        let standard = with_seed(&sampler(&lengths, 1, 8, STRATEGIES[pick], false), 0);
        // A rung for the longest row, which the standard ladder's last one may stand in for.
        let rungs = standard.first_uses(0..standard.batches_per_epoch() as u64).len() + 1;
        let fitted = standard.fitted(LengthBudget::of(rungs)).unwrap();
        let padded = |sampler: &Sampler| sampler.epoch(0).sizes().iter().map(positions).sum::<u32>();
        prop_assert!(padded(&fitted) <= padded(&standard));
        for plan in fitted.epoch(1).batches() {
            prop_assert!(plan.rows.iter().all(|&row| lengths[row as usize] <= positions(&plan.sizes)));
        }
        let on_four = sampler(&lengths, 4, 8, STRATEGIES[pick], false).fitted(LengthBudget::of(rungs)).unwrap();
        let (one, four) = (fitted.epoch(0), with_seed(&on_four, 0).epoch(0));
        let on_one: Vec<u32> = one.sizes().iter().map(positions).collect();
        let on_four: Vec<u32> = four.sizes().iter().map(positions).collect();
        prop_assert_eq!(on_one, on_four);
    }

    #[test]
    fn gathering_restores_data_set_order(
        lengths in lengths(), batch in 1usize..9, cores in 1usize..5, pick in 0usize..3,
    ) {
        let plan = sampler(&lengths, cores, batch * cores, STRATEGIES[pick], false).epoch(0);
        let mut gathered = GatherInOrder::new(lengths.len());
        for batch_plan in plan.batches() {
            for core in 0..cores {
                let mut slots = batch_plan.rows_of_core(core).to_vec();
                slots.resize(batch, u32::MAX);
                gathered.place(&batch_plan, core, slots).unwrap();
            }
        }
        prop_assert_eq!(gathered.finish().unwrap(), (0..lengths.len() as u32).collect::<Vec<_>>());
    }
}

#[test]
fn each_epoch_has_its_own_order_and_a_seed_repeats_it() {
    let lengths = vec![8; 200];
    for strategy in [SamplingStrategy::Random, SamplingStrategy::GroupByLength] {
        let rows = |epoch| sampler(&lengths, 1, 8, strategy, false).epoch(epoch).order.to_vec();
        assert_ne!(rows(0), rows(1));
        assert_eq!(rows(1), rows(1));
    }
}

#[test]
fn grouping_by_length_saves_most_padding_and_starts_with_the_longest() {
    let lengths: Vec<u32> =
        (0..4_000u32).map(|row| 4 + row.wrapping_mul(2_654_435_761) % 60).collect();
    let padded = |strategy| {
        let plan = sampler(&lengths, 1, 16, strategy, false).epoch(0);
        (
            plan.batches().map(|batch| batch.padded_tokens()).sum::<u64>(),
            positions(&plan.sizes()[0]),
        )
    };
    let tokens: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
    let (grouped, first) = padded(SamplingStrategy::GroupByLength);
    let (random, _) = padded(SamplingStrategy::Random);
    assert_eq!(first, 64);
    assert!(grouped as f64 <= 1.25 * tokens as f64, "{grouped} for {tokens} tokens");
    assert!(random as f64 >= 1.7 * tokens as f64, "{random} for {tokens} tokens");
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let check = |lengths: &[u32], batch_per_core, drop_last, expect| {
        let strategy = SamplingStrategy::Random;
        let config = SamplerConfig { batch_per_core, cores: 2, seed: 0, strategy, drop_last };
        let sampler = Sampler::new(config, lengths, LengthLadder::new(16, false).unwrap());
        assert_eq!(sampler.err(), Some(expect));
    };
    check(&[], 4, false, SamplerError::NoRows);
    check(&[3], 0, false, SamplerError::EmptyBatch);
    check(&[3; 7], 4, true, SamplerError::NothingLeft { rows: 7, global_batch: 8 });
    check(&[3, 17], 4, false, SamplerError::TooLong { row: 1, length: 17, longest: 16 });
}

#[test]
fn batches_are_padded_along_each_axis_by_its_own_lengths() {
    let check = |sampler: &Sampler, expect: &[&str]| {
        let sizes = sampler.epoch(0).sizes().iter().map(BatchSizes::to_string).collect::<Vec<_>>();
        assert_eq!(sizes, expect);
    };
    let strategy = SamplingStrategy::Sequential;
    let config = SamplerConfig { batch_per_core: 2, cores: 1, seed: 0, strategy, drop_last: false };
    let ladder = || LengthLadder::new(32, false).unwrap();
    let sampler = Sampler::new(config, [3, 9, 20, 21, 2], ladder()).unwrap();
    check(&sampler, &["2x12", "2x24", "2x8"]);
    let targets = [30, 1, 2, 2, 15];
    let sampler = sampler.with_axis(BatchAxis::TargetPositions, targets, ladder()).unwrap();
    check(&sampler, &["2x12x32", "2x24x8", "2x8x16"]);
    // Two lengths for each axis, four shapes at most.
    check(&sampler.fitted(LengthBudget::of(3)).unwrap(), &["2x9x30", "2x21x15", "2x9x15"]);
    assert_eq!(sampler.first_uses(0..3).len(), 3);
    assert_eq!(sampler.epoch(0).batch(0).unwrap().padded_tokens(), 2 * (12 + 32));
    let wrong = sampler.with_axis(BatchAxis::TargetPositions, [1, 2], ladder());
    assert_eq!(wrong.err(), Some(SamplerError::TooFewValues { found: 2, rows: 5 }));
}

#[test]
fn gathering_reports_missing_and_doubled_rows() {
    let plan = BatchPlan { sizes: BatchSizes::of_rows(2), rows: vec![0, 1, 2], cores: 2 };
    let mut gathered = GatherInOrder::new(4);
    gathered.place(&plan, 0, [10, 11]).unwrap();
    assert_eq!(gathered.place(&plan, 0, [10, 11]), Err(SamplerError::RowTwice { row: 0 }));
    assert_eq!(gathered.place(&plan, 1, []), Err(SamplerError::TooFewValues { found: 0, rows: 1 }));
    assert_eq!(gathered.finish(), Err(SamplerError::NoValue { row: 2 }));
}

proptest! {
    #[test]
    fn a_sample_determines_the_ladder_alone(
        lengths in prop::collection::vec(2u32..=64, 1..9000), batch in 1usize..100, seed in 0u64..9,
        pick in 0usize..2,
    ) {
        let whole = sampler(&lengths, 1, batch, STRATEGIES[pick], false);
        let sampled: BTreeSet<u32> = whole.sampled_rows().into_iter().collect();
        let known = |(row, length): (usize, &u32)| match sampled.contains(&(row as u32)) {
            true => *length,
            false => 0,
        };
        let known: Vec<u32> = lengths.iter().enumerate().map(known).collect();
        let first = with_seed(&sampler(&known, 1, batch, STRATEGIES[pick], false), seed);
        let budget = LengthBudget { lengths_max: 4, tokens_per_length: 9 };
        let fitted = |sampler: &Sampler| sampler.fitted_to_sample(budget).unwrap();
        let (whole, first) = (fitted(&whole), fitted(&first));
        prop_assert_eq!(&whole.axes[0].ladder, &first.axes[0].ladder);
        prop_assert_eq!(whole.sampled_sizes(), first.sampled_sizes());
        // Every batch has a rung, in which it fits.
        let continued = first.with_lengths([lengths.as_slice().into()]).unwrap();
        let epoch = continued.epoch(0);
        for plan in epoch.batches() {
            let longest = plan.rows.iter().map(|&row| lengths[row as usize]).max().unwrap();
            prop_assert!(positions(&plan.sizes) >= longest);
            prop_assert!(continued.axes[0].ladder.rungs().contains(&positions(&plan.sizes)));
        }
    }
}

#[test]
fn the_rows_of_batches_do_not_depend_on_lengths() {
    for strategy in [SamplingStrategy::Random, SamplingStrategy::Sequential] {
        let whole = sampler(&[5, 9, 2, 7, 30], 1, 2, strategy, false);
        let unknown = sampler(&[0; 5], 1, 2, strategy, false);
        let batches = |sampler: &Sampler| -> Vec<BTreeSet<u32>> {
            sampler.run(1, 5).map(|batch| batch.plan.rows.into_iter().collect()).collect()
        };
        assert_eq!(batches(&unknown), batches(&whole));
        assert_eq!(unknown.rows_of(1..5).len(), 7);
    }
}

proptest! {
    #[test]
    fn packed_rows_fit_and_stay_in_their_batches(
        lengths in lengths(), batch in 1usize..9, cores in 1usize..5, pick in 0usize..3, epoch in 0u64..5,
    ) {
        let padded = sampler(&lengths, cores, batch * cores, STRATEGIES[pick], false);
        let packed = padded.packed(LengthBudget::of(3)).unwrap();
        let (of_packed, of_padded) = (packed.epoch(epoch), padded.epoch(epoch));
        prop_assert_eq!(&of_packed.order, &of_padded.order);
        let longest = lengths.iter().copied().max().unwrap();
        for plan in of_packed.batches() {
            prop_assert_eq!(positions(&plan.sizes), longest);
            for core in 0..cores {
                let rows = plan.rows_of_core(core).iter();
                let tokens: u32 = rows.map(|&row| lengths[row as usize]).sum();
                let slots = batch * plan.sizes.get(BatchAxis::PackedPositions);
                prop_assert!(tokens as usize <= slots, "{tokens} tokens in {slots} slots");
            }
        }
        let on_any_seed = with_seed(&padded, 7).packed(LengthBudget::of(3)).unwrap();
        prop_assert_eq!(on_any_seed.packed, packed.packed);
    }
}

/// A long sequence beside three short ones takes the slots of its tokens, not those of four long ones.
#[test]
fn sequences_of_a_row_share_its_tokens() {
    let (longest, tokens) = ([40, 12, 9, 31], [64, 21, 20, 47]);
    let padded = sampler(&longest, 1, 2, SamplingStrategy::Sequential, false);
    let packed = padded.with_sequences(Arc::from(tokens), 4).unwrap();
    let packed = packed.packed(LengthBudget::of(3)).unwrap();
    // Each batch has two rows with four sequences each.
    let slots = [85u32.div_ceil(8), 67u32.div_ceil(8)];
    let batches = packed.batches_of_epoch();
    let found = batches.iter().map(|batch| batch.sizes.get(BatchAxis::PackedPositions) as u32);
    assert_eq!(found.collect::<Vec<_>>(), slots);
    let pairs = [(64 * 64 / 4 + 21 * 21 / 4u64).div_ceil(8), (100 + 47 * 47 / 4u64).div_ceil(8)];
    assert_eq!(batches.iter().map(|batch| batch.pairs_per_row).collect::<Vec<_>>(), pairs);
    assert_eq!(positions(&batches[1].sizes), 40);
    let missing = sampler(&longest, 1, 2, SamplingStrategy::Random, false);
    missing.with_sequences(Arc::from([1, 2, 3]), 4).unwrap_err();
}

/// Each part of a core's rows has slots for its own tokens.
#[test]
fn parts_of_a_batch_have_slots_for_the_fullest_one() {
    let lengths = [10, 12, 40, 30, 5, 6, 7, 8];
    let slots = |rows_max: Option<usize>| {
        let padded = sampler(&lengths, 1, 8, SamplingStrategy::Sequential, false);
        let parts = rows_max.into_iter().fold(padded, Sampler::in_parts);
        let packed = parts.packed(LengthBudget::of(3)).unwrap();
        let batches = packed.batches_of_epoch();
        let [batch] = batches.as_slice() else { panic!("{batches:?}") };
        (batch.sizes.rows(), batch.sizes.get(BatchAxis::PackedPositions), batch.tokens_per_row)
    };
    assert_eq!(slots(None), (8, 15, 15));
    // Parts of three rows do not divide a batch of eight.
    assert_eq!(slots(Some(3)), (8, 35, 35));
    assert_eq!(slots(Some(4)), (8, 23, 23));
}

#[test]
fn random_batches_without_padding_have_fewer_tokens_than_any_padded_ones() {
    let lengths: Vec<u32> =
        (0..4_000u32).map(|row| 4 + row.wrapping_mul(2_654_435_761) % 60).collect();
    let padded = sampler(&lengths, 2, 32, SamplingStrategy::Random, false);
    let tokens = |sampler: &Sampler| {
        sampler.epoch(0).batches().map(|batch| batch.padded_tokens()).sum::<u64>()
    };
    let packed = padded.packed(LengthBudget::of(3)).unwrap();
    let fitted = padded.fitted(LengthBudget::of(12)).unwrap();
    let ratio = tokens(&packed) as f64 / tokens(&fitted) as f64;
    assert!(ratio < 0.75, "{ratio}");
    let uses = packed.first_uses(0..1000).len();
    assert!(uses <= 5, "{uses} programs, of which three serve nearly all batches");
    // A sample of the batches chooses much the same.
    let sampled = padded.packed_to_sample(LengthBudget::of(3)).unwrap();
    let ratio = tokens(&sampled) as f64 / tokens(&packed) as f64;
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
    assert_eq!(sampled.batches_of_sample().len(), 64);
}
