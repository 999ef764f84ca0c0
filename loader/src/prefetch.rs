//! A thread that collates batches and transfers them to the devices ahead of their use.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::collate::HostBatch;
use crate::guard::panic_message;

/// Batches kept ready: one in transfer while the other waits.
const READY: usize = 2;

/// Yields the result of `transfer` for each batch, in order. Dropping it ends the thread after the
/// current transfer.
pub struct Prefetcher<T, E> {
    ready: Option<Receiver<Result<T, PrefetchError<E>>>>,
    thread: Option<JoinHandle<()>>,
}

/// A transferred batch, and how long the caller waited for it.
#[derive(Debug)]
pub struct Prefetched<T> {
    /// The batch.
    pub batch: T,
    /// The time that the caller has waited for it.
    pub waited: Duration,
}

/// Why there is no next batch.
#[derive(Debug, thiserror::Error)]
pub enum PrefetchError<E> {
    /// The batch itself failed, or its transfer.
    #[error(transparent)]
    Batch(E),
    /// The host starts no thread.
    #[error("start the prefetch thread: {0}")]
    Spawn(std::io::Error),
    /// A defect, with the message of the panic.
    #[error("the prefetch thread panicked: {message}")]
    Panicked {
        /// The message of the panic.
        message: String,
    },
}

impl<T: Send + 'static, E: Send + 'static> Prefetcher<T, E> {
    /// Starts the thread, which takes one batch at a time and runs `transfer` on it. It ends after
    /// the last batch or at the first error.
    pub fn spawn(
        batches: impl Iterator<Item = Result<HostBatch, E>> + Send + 'static,
        transfer: impl FnMut(HostBatch) -> Result<T, E> + Send + 'static,
    ) -> Result<Self, PrefetchError<E>> {
        // The thread itself holds one batch while the channel is full.
        let (sender, ready) = sync_channel(READY - 1);
        let thread = std::thread::Builder::new()
            .name("prefetch".to_owned())
            .spawn(move || run(batches, transfer, &sender))
            .map_err(PrefetchError::Spawn)?;
        Ok(Self { ready: Some(ready), thread: Some(thread) })
    }
}

impl<T, E> Iterator for Prefetcher<T, E> {
    type Item = Result<Prefetched<T>, PrefetchError<E>>;

    /// The next batch; None after the last and after an error.
    fn next(&mut self) -> Option<Self::Item> {
        let start = Instant::now();
        let batch = self.ready.as_ref()?.recv().ok()?;
        let waited = start.elapsed();
        Some(batch.map(|batch| Prefetched { batch, waited }))
    }
}

impl<T, E> Drop for Prefetcher<T, E> {
    fn drop(&mut self) {
        // Without its receiver the thread's next send fails, and it ends.
        self.ready = None;
        if let Some(thread) = self.thread.take() {
            // A panic was caught inside and has been reported.
            let _ = thread.join();
        }
    }
}

fn run<T, E>(
    mut batches: impl Iterator<Item = Result<HostBatch, E>>,
    mut transfer: impl FnMut(HostBatch) -> Result<T, E>,
    sender: &SyncSender<Result<T, PrefetchError<E>>>,
) {
    let mut next = || {
        let batch = batches.next()?;
        Some(batch.and_then(&mut transfer).map_err(PrefetchError::Batch))
    };
    loop {
        let outcome = match catch_unwind(AssertUnwindSafe(&mut next)) {
            Ok(None) => return,
            Ok(Some(outcome)) => outcome,
            Err(panic) => Err(PrefetchError::Panicked { message: panic_message(panic.as_ref()) }),
        };
        let failed = outcome.is_err();
        if sender.send(outcome).is_err() || failed {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::batch::Padding;
    use crate::collate::Collator;
    use crate::length_ladder::LengthLadder;
    use crate::sampler::{Sampler, SamplerConfig, SamplingStrategy};
    use crate::testing::set_of;

    fn spawn<T: Send + 'static>(
        total_batches: u64,
        transfer: impl FnMut(HostBatch) -> Result<T, String> + Send + 'static,
    ) -> Prefetcher<T, String> {
        let set = set_of(&[&[5, 6], &[7], &[8, 9, 10]], &[2, 0, 1]);
        let strategy = SamplingStrategy::Random;
        let config =
            SamplerConfig { batch_per_core: 2, cores: 1, seed: 1, strategy, drop_last: false };
        let sampler =
            Sampler::new(config, set.lengths(), LengthLadder::new(8, false).unwrap()).unwrap();
        let collator = Collator::new(Arc::new(set), Padding::behind(0));
        let batches = sampler.run(0, total_batches);
        let collated = batches.map(move |batch| Ok(collator.collate(batch).unwrap()));
        Prefetcher::spawn(collated, transfer).unwrap()
    }

    #[test]
    fn yields_every_batch_in_order_over_epochs() {
        let batches = spawn(7, |host| Ok((host.scheduled.batch, host.scheduled.epoch)));
        let batches: Vec<(u64, u64)> = batches.map(|batch| batch.unwrap().batch).collect();
        assert_eq!(batches, [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (6, 3)]);
    }

    #[test]
    fn keeps_two_batches_ready_and_no_more() {
        let transferred = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&transferred);
        let mut batches = spawn(100, move |_| Ok(counter.fetch_add(1, Ordering::SeqCst) + 1));
        for taken in 0..98 {
            while transferred.load(Ordering::SeqCst) < taken + 2 {
                std::thread::yield_now();
            }
            assert_eq!(transferred.load(Ordering::SeqCst), taken + 2);
            batches.next().unwrap().unwrap();
        }
    }

    #[test]
    fn the_time_waited_is_reported() {
        let (release, released) = std::sync::mpsc::channel();
        let batches = spawn(20, move |_| {
            released.recv().unwrap();
            Ok(())
        });
        let mut waited = Duration::ZERO;
        let start = Instant::now();
        // A batch is released only when it is asked for, so that each one is waited for.
        release.send(()).unwrap();
        for batch in batches {
            waited += batch.unwrap().waited;
            let _ = release.send(());
        }
        assert!(waited > Duration::ZERO && waited <= start.elapsed(), "{waited:?}");
    }

    #[test]
    fn an_error_and_a_panic_end_the_run_with_their_message() {
        let check = |fail: fn() -> Result<(), String>, expect: &str| {
            let mut batches =
                spawn(10, move |host| if host.scheduled.batch == 1 { fail() } else { Ok(()) });
            assert!(batches.next().unwrap().is_ok());
            assert!(format!("{:?}", batches.next().unwrap().unwrap_err()).contains(expect));
            assert!(batches.next().is_none());
        };
        check(|| Err("device is gone".to_owned()), "Batch(\"device is gone\")");
        check(|| panic!("no such core"), "Panicked { message: \"no such core\" }");
    }

    #[test]
    fn dropping_it_ends_the_thread_and_what_it_held() {
        let held = Arc::new(());
        let inside = Arc::clone(&held);
        let mut batches = spawn(1_000_000, move |_| Ok(Arc::clone(&inside)));
        batches.next().unwrap().unwrap();
        drop(batches);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
