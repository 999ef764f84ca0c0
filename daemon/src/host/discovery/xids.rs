//! XID events of NVIDIA's driver: errors of a GPU, which it reports once, as they happen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{EventSet, Nvml};

use super::Faults;

/// XIDs of hardware by NVIDIA's catalogue, with their meanings. Others may be a program's fault, such as 13 and 31, or
/// the driver's.
const SICK: &[(u64, &str)] = &[
    (48, "double-bit ECC error"),
    (64, "memory row could not be remapped"),
    (74, "NVLink error"),
    (79, "fallen off the bus"),
    (92, "many single-bit ECC errors"),
    (94, "contained ECC error"),
    (95, "uncontained ECC error"),
    (140, "unrecovered ECC error"),
];
/// How long the thread waits for an event before it waits again.
const WAIT_MS: u32 = 1000;
/// The pause after an error of the driver.
const RETRY: Duration = Duration::from_secs(1);

/// Counts of the XIDs of hardware, by GPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Xids {
    by_gpu: Arc<Mutex<BTreeMap<u32, Faults>>>,
}

impl Xids {
    /// Counts events from now on, in a thread: the driver reports the newest XID alone, so that those of several GPUs
    /// would be confused if they were read later. Without counts where the driver reports no events.
    pub(super) fn watch(library: &'static Nvml) -> Xids {
        let xids = Xids::default();
        let events = match subscribe(library, &xids) {
            Ok(events) => events,
            Err(error) => {
                tracing::info!(%error, "watch the XID events of NVIDIA's driver");
                return xids;
            }
        };
        let counting = xids.clone();
        let watch = move || counting.count_all(&events);
        if let Err(error) = std::thread::Builder::new().name("xid-events".to_owned()).spawn(watch) {
            tracing::warn!(%error, "watch the XID events of NVIDIA's driver");
        }
        xids
    }

    /// The counts of a GPU; empty if its events are not watched.
    pub(super) fn of(&self, gpu: u32) -> Faults {
        self.by_gpu().get(&gpu).cloned().unwrap_or_default()
    }

    fn count_all(&self, events: &EventSet<'_>) {
        loop {
            match events.wait(WAIT_MS) {
                Ok(event) => {
                    if let (Ok(gpu), Some(XidError::Value(xid))) =
                        (event.device.index(), event.event_data)
                    {
                        tracing::warn!(gpu, xid, "NVIDIA's driver reports an error");
                        self.count(gpu, xid);
                    }
                }
                Err(NvmlError::Timeout) => {}
                Err(_) => std::thread::sleep(RETRY),
            }
        }
    }

    fn count(&self, gpu: u32, xid: u64) {
        let Some(sick) = SICK.iter().find(|(sick, _)| *sick == xid) else { return };
        let name = name(sick);
        if let Some(count) = self.by_gpu().get_mut(&gpu).and_then(|counts| counts.get_mut(&name)) {
            *count += 1;
        }
    }

    fn by_gpu(&self) -> MutexGuard<'_, BTreeMap<u32, Faults>> {
        self.by_gpu.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Subscribes to the events of all GPUs that have them, and begins to count those at zero.
fn subscribe(library: &'static Nvml, xids: &Xids) -> Result<EventSet<'static>, NvmlError> {
    let mut events = library.create_event_set()?;
    for gpu in 0..library.device_count()? {
        let Ok(device) = library.device_by_index(gpu) else { continue };
        let supported = device.supported_event_types();
        if !supported.is_ok_and(|types| types.contains(EventTypes::CRITICAL_XID_ERROR)) {
            continue;
        }
        events = device
            .register_events(EventTypes::CRITICAL_XID_ERROR, events)
            .map_err(|error| error.error)?;
        let zeros = SICK.iter().map(|sick| (name(sick), 0)).collect();
        xids.by_gpu().insert(gpu, zeros);
    }
    Ok(events)
}

/// The name of an XID that only sick hardware has.
fn name((xid, meaning): &(u64, &str)) -> String {
    format!("XID {xid} ({meaning})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xids_that_programs_cause_are_not_counted() {
        let xids = Xids::default();
        xids.by_gpu().insert(1, [("XID 79 (fallen off the bus)".to_owned(), 0)].into());
        [13, 31, 43, 45, 79, 79, u64::MAX].into_iter().for_each(|xid| xids.count(1, xid));
        xids.count(0, 79);
        assert_eq!(xids.of(1), [("XID 79 (fallen off the bus)".to_owned(), 2)].into());
        assert!(xids.of(0).is_empty(), "its events are not watched");
    }
}
