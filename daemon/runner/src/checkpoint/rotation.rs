//! Chooses the checkpoints to remove where there are more than `save_total_limit`.

/// The checkpoints of a run, by their steps.
#[derive(Clone, Debug)]
pub(super) struct Rotation {
    /// `save_total_limit`.
    pub limit: Option<u32>,
    /// The existing checkpoints, the oldest first.
    pub kept: Vec<u64>,
}

impl Rotation {
    /// Adds the newest checkpoint; returns those to remove. As in the Trainer, the newest and the
    /// best are kept even where the limit is 1.
    pub(super) fn add(&mut self, newest: u64, best: Option<u64>) -> Vec<u64> {
        self.kept.retain(|step| *step != newest);
        self.kept.push(newest);
        let Some(limit) = self.limit else { return Vec::new() };
        let mut removed = Vec::new();
        let mut index = 0;
        while self.kept.len() > limit as usize && index < self.kept.len() {
            let step = self.kept[index];
            if step == newest || Some(step) == best {
                index += 1;
            } else {
                removed.push(self.kept.remove(index));
            }
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(limit: Option<u32>, best: &[Option<u64>], expect: &[&[u64]]) {
        let mut rotation = Rotation { limit, kept: Vec::new() };
        for ((step, best), expect) in (1..).zip(best).zip(expect) {
            let before = rotation.kept.len() + 1;
            let removed = rotation.add(step, *best);
            assert_eq!(rotation.kept, *expect, "after step {step}");
            assert_eq!(before, rotation.kept.len() + removed.len());
        }
    }

    #[test]
    fn the_oldest_are_removed_and_the_best_is_kept() {
        check(None, &[None; 3], &[&[1], &[1, 2], &[1, 2, 3]]);
        check(Some(2), &[None; 4], &[&[1], &[1, 2], &[2, 3], &[3, 4]]);
        check(Some(2), &[Some(1); 4], &[&[1], &[1, 2], &[1, 3], &[1, 4]]);
        let best = [Some(1), Some(1), Some(3), Some(3)];
        check(Some(1), &best, &[&[1], &[1, 2], &[3], &[3, 4]]);
    }

    #[test]
    fn a_repeated_step_counts_once() {
        let mut rotation = Rotation { limit: Some(2), kept: vec![5, 10] };
        assert!(rotation.add(10, None).is_empty());
        assert_eq!(rotation.kept, [5, 10]);
    }
}
