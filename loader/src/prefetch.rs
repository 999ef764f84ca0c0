//! A thread that has the next steps collated and handed to the devices before they are asked for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::guard::panic_message;
use crate::{Collator, HostStep, ScheduledStep};

/// Steps kept ready: one on its way while the other waits.
const READY: usize = 2;

/// Yields what `transfer` made of each step, in order. Dropping it ends the thread, after the
/// transfer under way.
pub struct Prefetcher<T, E> {
    ready: Option<Receiver<Result<T, PrefetchError<E>>>>,
    thread: Option<JoinHandle<()>>,
}

/// A step's result and how long it was waited for: the input-bound share of the step.
#[derive(Debug)]
pub struct Prefetched<T> {
    pub step: T,
    pub waited: Duration,
}

/// Why there is no next step.
#[derive(Debug, thiserror::Error)]
pub enum PrefetchError<E> {
    #[error(transparent)]
    Transfer(E),
    #[error(transparent)]
    Collate(crate::Error),
    #[error("start the prefetch thread: {0}")]
    Spawn(std::io::Error),
    #[error("the prefetch thread panicked: {message}")]
    Panicked { message: String },
}

impl<T: Send + 'static, E: Send + 'static> Prefetcher<T, E> {
    /// Starts the thread, which runs `transfer` on each collated step, one at a time. It ends
    /// after the last step or at the first error.
    pub fn spawn(
        steps: impl Iterator<Item = ScheduledStep> + Send + 'static,
        collator: Collator,
        transfer: impl FnMut(HostStep) -> Result<T, E> + Send + 'static,
    ) -> Result<Self, PrefetchError<E>> {
        // The thread itself holds one step while the channel is full.
        let (sender, ready) = sync_channel(READY - 1);
        let thread = std::thread::Builder::new()
            .name("prefetch".to_owned())
            .spawn(move || run(steps, &collator, transfer, &sender))
            .map_err(PrefetchError::Spawn)?;
        Ok(Self { ready: Some(ready), thread: Some(thread) })
    }
}

impl<T, E> Iterator for Prefetcher<T, E> {
    type Item = Result<Prefetched<T>, PrefetchError<E>>;

    /// The next step; None after the last and after an error.
    fn next(&mut self) -> Option<Self::Item> {
        let start = Instant::now();
        let step = self.ready.as_ref()?.recv().ok()?;
        let waited = start.elapsed();
        Some(step.map(|step| Prefetched { step, waited }))
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
    mut steps: impl Iterator<Item = ScheduledStep>,
    collator: &Collator,
    mut transfer: impl FnMut(HostStep) -> Result<T, E>,
    sender: &SyncSender<Result<T, PrefetchError<E>>>,
) {
    let mut next = || {
        let step = steps.next()?;
        let collated = collator.collate(step).map_err(PrefetchError::Collate);
        Some(collated.and_then(|step| transfer(step).map_err(PrefetchError::Transfer)))
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
    use crate::testing::set_of;
    use crate::{Buckets, Sampler, SamplerConfig, SamplingStrategy};

    fn spawn<T: Send + 'static>(
        total_steps: u64,
        transfer: impl FnMut(HostStep) -> Result<T, String> + Send + 'static,
    ) -> Prefetcher<T, String> {
        let set = set_of(&[&[5, 6], &[7], &[8, 9, 10]], &[2, 0, 1]);
        let strategy = SamplingStrategy::Random;
        let config =
            SamplerConfig { batch_per_core: 2, cores: 1, seed: 1, strategy, drop_last: false };
        let sampler = Sampler::new(config, set.lengths(), Buckets::new(8, false).unwrap()).unwrap();
        let collator = Collator::new(Arc::new(set), 0);
        Prefetcher::spawn(sampler.run(0, total_steps), collator, transfer).unwrap()
    }

    #[test]
    fn yields_every_step_in_order_over_epochs() {
        let steps = spawn(7, |step| Ok((step.scheduled.step, step.scheduled.epoch)));
        let steps: Vec<(u64, u64)> = steps.map(|step| step.unwrap().step).collect();
        assert_eq!(steps, [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (6, 3)]);
    }

    #[test]
    fn keeps_two_steps_ready_and_no_more() {
        let transferred = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&transferred);
        let mut steps = spawn(100, move |_| Ok(counter.fetch_add(1, Ordering::SeqCst)));
        let settle = |expect| {
            let deadline = Instant::now() + Duration::from_secs(20);
            while transferred.load(Ordering::SeqCst) < expect && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(30));
            assert_eq!(transferred.load(Ordering::SeqCst), expect);
        };
        settle(2);
        steps.next().unwrap().unwrap();
        settle(3);
    }

    #[test]
    fn the_time_waited_is_told() {
        let slow = Duration::from_millis(200);
        let mut steps = spawn(3, move |_| {
            std::thread::sleep(slow);
            Ok(())
        });
        let first = steps.next().unwrap().unwrap();
        assert!(first.waited >= slow / 2, "{:?}", first.waited);
        std::thread::sleep(3 * slow);
        let second = steps.next().unwrap().unwrap();
        assert!(second.waited < slow / 2, "{:?}", second.waited);
    }

    #[test]
    fn an_error_and_a_panic_end_the_run_with_their_message() {
        let check = |fail: fn() -> Result<(), String>, expect: &str| {
            let mut steps =
                spawn(10, move |step| if step.scheduled.step == 1 { fail() } else { Ok(()) });
            assert!(steps.next().unwrap().is_ok());
            assert!(format!("{:?}", steps.next().unwrap().unwrap_err()).contains(expect));
            assert!(steps.next().is_none());
        };
        check(|| Err("device is gone".to_owned()), "Transfer(\"device is gone\")");
        check(|| panic!("no such core"), "Panicked { message: \"no such core\" }");
    }

    #[test]
    fn dropping_it_ends_the_thread_and_what_it_held() {
        let held = Arc::new(());
        let inside = Arc::clone(&held);
        let mut steps = spawn(1_000_000, move |_| Ok(Arc::clone(&inside)));
        steps.next().unwrap().unwrap();
        drop(steps);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
