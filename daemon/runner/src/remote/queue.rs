//! The checkpoints that are to be uploaded, and those that the disk need not hold any longer.

use std::collections::{BTreeSet, VecDeque};

/// The most checkpoints that wait besides the best one. When uploads take longer than the steps
/// between two checkpoints, the oldest that waits is left out, so that the disk does not fill up.
const WAITING_MAX: usize = 2;

/// Checkpoints by their steps.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<u64>,
    uploading: Option<u64>,
    newest: Option<u64>,
    best: Option<u64>,
    /// The checkpoints on the disk.
    local: BTreeSet<u64>,
}

impl Queue {
    /// Notes a checkpoint on the disk that need not be uploaded.
    pub(super) fn has(&mut self, step: u64) {
        self.local.insert(step);
        self.newest = self.newest.max(Some(step));
    }

    /// Adds a checkpoint that was written; returns those that are left out for it.
    pub(super) fn add(&mut self, step: u64, best: Option<u64>) -> Vec<u64> {
        self.has(step);
        self.best = best;
        self.waiting.retain(|known| *known != step);
        self.waiting.push_back(step);
        let mut left_out = Vec::new();
        while self.waiting.iter().filter(|step| Some(**step) != best).count() > WAITING_MAX {
            let oldest = self.waiting.iter().position(|step| Some(*step) != best);
            left_out.extend(oldest.and_then(|index| self.waiting.remove(index)));
        }
        left_out
    }

    /// Takes the next checkpoint to upload.
    pub(super) fn begin(&mut self) -> Option<u64> {
        self.uploading = self.waiting.pop_front();
        self.uploading
    }

    /// Notes that the upload under way has ended.
    pub(super) fn end(&mut self) {
        self.uploading = None;
    }

    pub(super) fn best(&self) -> Option<u64> {
        self.best
    }

    /// Takes the checkpoints that the disk need not hold: all that are neither the newest, the best
    /// nor still to be uploaded.
    pub(super) fn take_removable(&mut self) -> Vec<u64> {
        let needed = |step: &u64| {
            [self.newest, self.best, self.uploading].contains(&Some(*step))
                || self.waiting.contains(step)
        };
        let removable: Vec<u64> = self.local.iter().copied().filter(|step| !needed(step)).collect();
        self.local.retain(|step| !removable.contains(step));
        removable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_holds_what_is_needed() {
        let mut queue = Queue::default();
        queue.has(5);
        assert!(queue.add(10, Some(5)).is_empty());
        assert_eq!(queue.begin(), Some(10));
        assert!(queue.take_removable().is_empty(), "the best and the newest");
        queue.end();
        assert!(queue.add(15, Some(15)).is_empty());
        assert_eq!(queue.take_removable(), [5, 10]);
        assert_eq!((queue.begin(), queue.begin()), (Some(15), None));
    }

    #[test]
    fn slow_uploads_leave_out_all_but_the_newest_and_the_best() {
        let mut queue = Queue::default();
        queue.add(1, Some(1));
        assert_eq!(queue.begin(), Some(1));
        for (step, best, left_out) in
            [(2, 2, &[][..]), (3, 2, &[]), (4, 2, &[]), (5, 2, &[3]), (6, 2, &[4])]
        {
            assert_eq!(queue.add(step, Some(best)), left_out, "at {step}");
        }
        // One more is written meanwhile, which makes five.
        assert_eq!(queue.take_removable(), [3, 4]);
        assert_eq!(queue.local, BTreeSet::from([1, 2, 5, 6]));
        queue.end();
        assert_eq!(queue.take_removable(), [1]);
        assert_eq!([queue.begin(), queue.begin(), queue.begin()], [Some(2), Some(5), Some(6)]);
    }

    #[test]
    fn a_checkpoint_that_is_written_again_waits_once() {
        let mut queue = Queue::default();
        queue.add(1, None);
        queue.add(1, None);
        assert_eq!((queue.begin(), queue.begin()), (Some(1), None));
    }
}
