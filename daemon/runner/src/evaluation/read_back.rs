//! Reads back results while the next batch is computed, so that the cores do not wait for the host.

use std::sync::mpsc::{SyncSender, sync_channel};

use traind_loader::panic_message;

use crate::error::{RunError, RunResult};

/// Launches batches in their order, and reads the results of each on a second thread while the next one is launched:
/// a plugin for CPUs computes within the launch. At most two batches are launched and not yet read.
pub(super) fn beside_launches<B, L: Send>(
    batches: impl Iterator<Item = B>,
    launch: impl FnMut(B) -> RunResult<L>,
    read: impl FnMut(L) -> RunResult<()> + Send,
) -> RunResult<()> {
    std::thread::scope(|scope| {
        // Hands a batch over when the one before is read.
        let (sender, launched) = sync_channel(0);
        let reader = scope.spawn(move || launched.into_iter().try_for_each(read));
        let ended = launch_all(batches, launch, &sender);
        drop(sender);
        let read = reader
            .join()
            .unwrap_or_else(|panic| Err(RunError::Panicked(panic_message(panic.as_ref()))));
        read.and(ended)
    })
}

fn launch_all<B, L>(
    batches: impl Iterator<Item = B>,
    mut launch: impl FnMut(B) -> RunResult<L>,
    sender: &SyncSender<L>,
) -> RunResult<()> {
    for batch in batches {
        // Fails where the reader has failed, which has the reason.
        if sender.send(launch(batch)?).is_err() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};
    use std::time::Duration;

    use super::*;

    /// How long a test waits for the other thread.
    const PATIENCE: Duration = Duration::from_secs(60);
    const BATCHES: usize = 4;

    /// The batches launched and read so far, on either thread.
    #[derive(Default)]
    struct Calls {
        launched: Mutex<Vec<usize>>,
        changed: Condvar,
        read: Mutex<Vec<usize>>,
    }

    impl Calls {
        fn launch(&self, batch: usize) -> RunResult<usize> {
            self.launched.lock().unwrap().push(batch);
            self.changed.notify_all();
            Ok(batch)
        }

        /// Reads a batch once so many are launched.
        fn read_when(&self, launched: usize, batch: usize) -> RunResult<()> {
            let guard = self.launched.lock().unwrap();
            let waits = |batches: &mut Vec<usize>| batches.len() < launched;
            let (guard, waited) = self.changed.wait_timeout_while(guard, PATIENCE, waits).unwrap();
            assert!(!waited.timed_out(), "batch {batch} is read before the next is launched");
            assert!(guard.len() <= batch + 2, "{guard:?} are launched and {batch} is not read");
            self.read.lock().unwrap().push(batch);
            Ok(())
        }
    }

    #[test]
    fn the_next_batch_is_launched_before_results_are_read_and_their_order_stays() {
        let calls = Calls::default();
        let read = |batch: usize| calls.read_when(BATCHES.min(batch + 2), batch);
        beside_launches(0..BATCHES, |batch| calls.launch(batch), read).unwrap();
        assert_eq!(*calls.launched.lock().unwrap(), (0..BATCHES).collect::<Vec<_>>());
        assert_eq!(*calls.read.lock().unwrap(), (0..BATCHES).collect::<Vec<_>>());
    }

    #[test]
    fn a_batch_that_cannot_be_read_ends_the_launches_with_its_error() {
        let calls = Calls::default();
        let read = |batch| match batch {
            0 => Err(RunError::Panicked("unreadable".to_owned())),
            _ => Ok(()),
        };
        let failed = beside_launches(0..BATCHES, |batch| calls.launch(batch), read);
        assert!(matches!(&failed, Err(RunError::Panicked(message)) if message == "unreadable"));
        assert!(calls.launched.lock().unwrap().len() <= 2);
    }

    #[test]
    fn a_panic_while_reading_is_an_error() {
        let read = |batch: usize| -> RunResult<()> { panic!("batch {batch} confuses the reader") };
        let failed = beside_launches(0..BATCHES, Ok, read);
        assert!(
            matches!(&failed, Err(RunError::Panicked(message)) if message.contains("confuses")),
            "{failed:?}"
        );
    }

    #[test]
    fn batches_before_one_that_cannot_be_launched_are_read() {
        let calls = Calls::default();
        let launch = |batch| match batch {
            2 => Err(RunError::Panicked("refused".to_owned())),
            _ => calls.launch(batch),
        };
        let failed = beside_launches(0..BATCHES, launch, |batch| calls.read_when(0, batch));
        assert!(matches!(&failed, Err(RunError::Panicked(message)) if message == "refused"));
        assert_eq!(*calls.read.lock().unwrap(), [0, 1]);
    }
}
