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
    /// best are kept even where the limit is 1. Those that are `held` are kept and not counted.
    pub(super) fn add(&mut self, newest: u64, best: Option<u64>, held: &[u64]) -> Vec<u64> {
        self.kept.retain(|step| *step != newest);
        self.kept.push(newest);
        let Some(limit) = self.limit else { return Vec::new() };
        let (mut removed, mut index) = (Vec::new(), 0);
        let is_held = |step: u64| held.contains(&step) && step != newest && Some(step) != best;
        let held_count = self.kept.iter().filter(|step| is_held(**step)).count();
        while self.kept.len() > limit as usize + held_count && index < self.kept.len() {
            let step = self.kept[index];
            if step == newest || Some(step) == best || is_held(step) {
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
            let removed = rotation.add(step, *best, &[]);
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
    fn held_checkpoints_stay_until_they_are_released() {
        let mut rotation = Rotation { limit: Some(2), kept: vec![10, 20] };
        assert!(rotation.add(30, None, &[10]).is_empty());
        assert_eq!(rotation.add(40, None, &[10]), [20]);
        assert_eq!(rotation.kept, [10, 30, 40]);
        assert_eq!(rotation.add(50, None, &[]), [10, 30]);
        let mut one = Rotation { limit: Some(1), kept: vec![10] };
        assert!(one.add(20, None, &[20, 10]).is_empty());
        assert_eq!(one.add(30, None, &[20]), [10]);
    }

    #[test]
    fn a_repeated_step_counts_once() {
        let mut rotation = Rotation { limit: Some(2), kept: vec![5, 10] };
        assert!(rotation.add(10, None, &[]).is_empty());
        assert_eq!(rotation.kept, [5, 10]);
    }
}
