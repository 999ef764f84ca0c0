//! The times of kernel calls, while this process records them. Kernels are called without a context of ours, so the
//! record is one of the process.

use super::KernelCall;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The attribute by which a program numbers its calls of kernels: an `i64`.
pub const CALL_NUMBER: &str = "call";

/// Calls that are kept; later ones are counted alone.
const TIMES_MAX: usize = 1 << 20;

static IS_RECORDING: AtomicBool = AtomicBool::new(false);
static RECORD: Mutex<Record> = Mutex::new(Record { times: Vec::new(), lost: 0 });

#[derive(Debug)]
struct Record {
    times: Vec<KernelTime>,
    lost: u64,
}

/// The time of one call of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelTime {
    /// The name under which the program calls the kernel.
    pub kernel: &'static str,
    /// The number of the call in its program; `None` where the program does not number calls.
    pub call: Option<i64>,
    /// The number of the device among those of its client; `None` where the plugin does not number devices.
    pub device: Option<usize>,
    /// The thread that made the call, from 1 in the order of their first calls.
    pub thread: u32,
    /// The start of the call.
    pub start: Instant,
    /// The end of the call, which for a deferred one may be on another thread.
    pub end: Instant,
    /// The sizes of all operands and results, in bytes.
    pub bytes: u64,
}

/// Records the calls of kernels in this process until it is dropped.
#[derive(Debug)]
pub struct KernelTimes(());

/// The calls of kernels within a time.
#[derive(Debug, Default)]
pub struct RecordedTimes {
    /// The calls, by their ends.
    pub times: Vec<KernelTime>,
    /// The number of further calls, for which there was no room.
    pub lost: u64,
}

impl KernelTimes {
    /// Begins to record; `None` while another record is made.
    pub fn start() -> Option<KernelTimes> {
        let was_recording = IS_RECORDING.swap(true, Ordering::AcqRel);
        // One that is made and dropped would end the other record.
        (!was_recording).then(|| KernelTimes(()))
    }

    /// Ends the record and returns it.
    pub fn finish(self) -> RecordedTimes {
        IS_RECORDING.store(false, Ordering::Release);
        let Record { times, lost } = take();
        RecordedTimes { times, lost }
    }
}

impl Drop for KernelTimes {
    fn drop(&mut self) {
        IS_RECORDING.store(false, Ordering::Release);
        take();
    }
}

fn take() -> Record {
    std::mem::replace(&mut *lock(), Record { times: Vec::new(), lost: 0 })
}

fn lock() -> MutexGuard<'static, Record> {
    RECORD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call that is being timed.
pub(super) struct Timer {
    kernel: &'static str,
    call: Option<i64>,
    device: Option<usize>,
    thread: u32,
    bytes: u64,
    start: Instant,
}

impl Timer {
    /// Starts where calls are recorded.
    pub(super) fn start(kernel: &'static str, call: &KernelCall<'_>) -> Option<Timer> {
        if !IS_RECORDING.load(Ordering::Acquire) {
            return None;
        }
        Some(Timer {
            kernel,
            call: call.attribute(CALL_NUMBER).ok(),
            device: call.device_ordinal().ok(),
            thread: thread_number(),
            bytes: call.bytes(),
            start: Instant::now(),
        })
    }

    pub(super) fn end(self) {
        let end = Instant::now();
        let Timer { kernel, call, device, thread, bytes, start } = self;
        if !IS_RECORDING.load(Ordering::Acquire) {
            return;
        }
        let mut record = lock();
        match record.times.len() < TIMES_MAX {
            true => {
                record.times.push(KernelTime { kernel, call, device, thread, start, end, bytes });
            }
            false => record.lost += 1,
        }
    }
}

fn thread_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local! {
        static NUMBER: u32 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}
