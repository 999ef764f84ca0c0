//! Watches the devices' counters of hardware errors, and fences cores on which they rise.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::control::daemon::Daemon;
use crate::host::Faults;

/// The pause between two readings.
const PERIOD: Duration = Duration::from_secs(1);

/// Watches until the daemon closes. Errors that were counted before it began do not fence: they may be years old.
pub(in crate::control) async fn run(daemon: Arc<Daemon>) {
    let mut known: BTreeMap<u32, Faults> = BTreeMap::new();
    loop {
        let host = daemon.settings.host.clone();
        let read = tokio::task::spawn_blocking(move || host.faults()).await.unwrap_or_default();
        for (core, reason) in risen(&known, &read) {
            if daemon.fences.of(core).is_none()
                && let Err(error) = daemon.fence(core, &reason).await
            {
                tracing::error!(core, reason, %error, "store the fence of a core");
            }
        }
        // A device or counter that cannot be read keeps its count.
        for (core, faults) in read {
            known.entry(core).or_default().extend(faults);
        }
        tokio::select! {
            () = daemon.closing.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

/// Cores whose counters have risen, with the reason. A counter that was reset, as by a new driver, has not.
fn risen(before: &BTreeMap<u32, Faults>, now: &BTreeMap<u32, Faults>) -> Vec<(u32, String)> {
    let mut risen = Vec::new();
    for (core, faults) in now {
        let Some(before) = before.get(core) else { continue };
        let rises = faults.iter().filter_map(|(name, count)| {
            let was = before.get(name)?;
            (count > was).then(|| format!("{name} rose from {was} to {count}"))
        });
        let rises: Vec<String> = rises.collect();
        if !rises.is_empty() {
            risen.push((*core, format!("hardware errors: {}", rises.join(", "))));
        }
    }
    risen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(core: u32, counts: &[(&str, u64)]) -> (u32, Faults) {
        (core, counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect())
    }

    #[test]
    fn counters_that_rise_are_named_and_those_that_are_reset_are_not() {
        let before = [counts(0, &[("ecc", 2), ("hw", 0)]), counts(1, &[("ecc", 5)])];
        let now = [
            counts(0, &[("ecc", 3), ("hw", 0)]),
            counts(1, &[("ecc", 0)]),
            counts(2, &[("ecc", 9)]),
        ];
        let found = risen(&before.into(), &now.into());
        assert_eq!(found, [(0, "hardware errors: ecc rose from 2 to 3".to_owned())]);
    }
}
