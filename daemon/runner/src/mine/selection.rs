//! Which of the texts nearest to a query are its negatives.

use anyhow::ensure;
use traind_job_file::commands::{MineLimits, MineRequest, MineSampling};

use super::rows::{Mined, Pairs};
use crate::decoding::mix;
use crate::vectors::{Candidate, Vectors, nearest, similarity};

/// How negatives are chosen.
#[derive(Debug)]
pub(super) struct Selection {
    limits: MineLimits,
    range_max: usize,
    num_negatives: usize,
    sampling: MineSampling,
    most_positives: usize,
}

impl Selection {
    /// `most_positives` are those of the query that has the most. Fails where the limits leave no room for the
    /// negatives.
    pub(super) fn new(request: &MineRequest, most_positives: usize) -> anyhow::Result<Selection> {
        let MineRequest { limits, num_negatives, sampling_strategy, .. } = *request;
        ensure!(num_negatives > 0, "--num-negatives must be at least 1");
        let leaves_out = limits.absolute_margin.is_some()
            || limits.relative_margin.is_some()
            || limits.max_score.is_some();
        // More candidates where some are left out.
        let times = if leaves_out { 10 } else { 1 };
        let default = limits.range_min + times * num_negatives + most_positives;
        let range_max = limits.range_max.unwrap_or(default);
        ensure!(
            range_max >= limits.range_min + num_negatives,
            "--range-max {range_max} leaves no room for {num_negatives} negatives from --range-min {} on",
            limits.range_min
        );
        let sampling = sampling_strategy;
        Ok(Selection { limits, range_max, num_negatives, sampling, most_positives })
    }

    /// Chooses the negatives of all queries, by the vectors of queries and of texts.
    pub(super) fn of_all(
        &self,
        pairs: &Pairs,
        [queries, texts]: [&Vectors; 2],
        seed: u64,
    ) -> Vec<Mined> {
        // Positives may be among the nearest.
        let candidates = nearest(queries, texts, self.range_max + self.most_positives);
        let of_query = |(query, (positives, candidates)): (usize, (&Vec<usize>, _))| {
            let scored = |text: &usize| {
                let score = similarity(queries.of(query), texts.of(*text));
                Candidate { text: *text, score }
            };
            let positives = positives.iter().map(scored).collect();
            self.of_query(positives, candidates, seed ^ query as u64)
        };
        pairs.positives.iter().zip(candidates).enumerate().map(of_query).collect()
    }

    /// Chooses among the `candidates` of a query, the nearest first.
    fn of_query(&self, positives: Vec<Candidate>, candidates: Vec<Candidate>, seed: u64) -> Mined {
        // The hardest positive is the one that negatives must keep away from.
        let hardest = positives.iter().map(|it| it.score).fold(f32::INFINITY, f32::min);
        let is_positive = |text: usize| positives.iter().any(|positive| positive.text == text);
        let fitting = candidates
            .into_iter()
            .filter(|it| !is_positive(it.text) && self.is_within_limits(it.score, hardest));
        let mut negatives: Vec<Candidate> =
            fitting.take(self.range_max).skip(self.limits.range_min).collect();
        match self.sampling {
            MineSampling::Top => negatives.truncate(self.num_negatives),
            MineSampling::Random => draw(&mut negatives, self.num_negatives, seed),
        }
        Mined { positives, negatives }
    }

    fn is_within_limits(&self, score: f32, hardest: f32) -> bool {
        let MineLimits { max_score, min_score, absolute_margin, relative_margin, .. } = self.limits;
        absolute_margin.is_none_or(|margin| score + margin <= hardest)
            && relative_margin.is_none_or(|margin| score <= hardest - hardest.abs() * margin)
            && max_score.is_none_or(|most| score <= most)
            && min_score.is_none_or(|least| score >= least)
    }
}

/// Keeps `count` of `all` in their order, drawn by `seed`.
fn draw(all: &mut Vec<Candidate>, count: usize, seed: u64) {
    let mut state = seed;
    while all.len() > count {
        state = mix(state);
        all.remove((state >> 33) as usize % all.len());
    }
}
