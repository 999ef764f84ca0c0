//! The thread that makes all calls of MPI: it begins reductions as programs ask for them, and tests
//! those under way until they are complete. Threads of the devices then continue the programs.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use traind_pjrt::DeferredCall;

use crate::abi::{Functions, Handle, Operands, Request};
use crate::denormals::flush_to_zero;
use crate::error::{Error, Result};
use crate::kernel::{Reduction, datatype, refusal};
use crate::process::Process;
use crate::world::Statistics;

/// Reductions of small values are complete within this time, if all hosts are as fast. Testing
/// without a pause leaves the processor to others that are ready to run.
const TESTED_WITHOUT_PAUSE: Duration = Duration::from_micros(500);
/// A pause between tests: short beside the time that the buffers of a fast network last.
const PAUSE: Duration = Duration::from_micros(50);

/// The stack of a thread on which programs continue: as large as that of a main thread.
const STACK_BYTES: usize = 8 << 20;

/// What other threads ask of the engine.
pub(crate) enum Order {
    Exchange(Exchange),
    Finish(Sender<Result<()>>),
}

/// A reduction of one device.
pub(crate) struct Exchange {
    pub device: usize,
    pub reduction: Reduction,
    pub call: DeferredCall,
}

/// A reduction that MPI has begun. The call keeps its memory.
struct Pending {
    request: Request,
    device: usize,
    call: DeferredCall,
}

/// A call that ends, and how.
type Ended = (DeferredCall, Result<()>);

pub(crate) struct Engine {
    functions: Functions,
    devices: Vec<Device>,
    pending: Vec<Pending>,
    totals: Arc<Totals>,
}

/// What the engine has for a device.
struct Device {
    communicator: Handle,
    /// To the thread that ends the device's calls. It continues the device's program, which may wait
    /// there for another device, so that no two devices have the same.
    ended: Sender<Ended>,
}

/// Counts for [`Statistics`].
#[derive(Default)]
pub(crate) struct Totals {
    calls: AtomicU64,
    bytes: AtomicU64,
    busy_nanoseconds: AtomicU64,
    pending: AtomicU64,
}

impl Totals {
    pub(crate) fn statistics(&self) -> Statistics {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Statistics {
            calls: read(&self.calls),
            bytes: read(&self.bytes),
            busy: Duration::from_nanos(read(&self.busy_nanoseconds)),
            pending: read(&self.pending),
        }
    }
}

impl Engine {
    /// Starts MPI on the calling thread.
    pub(crate) fn start(
        functions: Functions,
        process: &Process,
        devices: usize,
        totals: Arc<Totals>,
    ) -> Result<Engine> {
        functions.start()?;
        let (found_rank, found_size) = functions.place()?;
        let (rank, size) = (process.rank, process.size);
        if (found_rank, found_size) != (rank, size) {
            return Err(Error::Place { rank, size, found_rank, found_size });
        }
        let devices = (0..devices).map(|device| Device::start(&functions, device));
        let devices = devices.collect::<Result<_>>()?;
        Ok(Engine { functions, devices, pending: Vec::new(), totals })
    }

    /// Follows orders until MPI is finished.
    pub(crate) fn run(mut self, orders: &Receiver<Order>) {
        loop {
            // Nothing is under way: the thread sleeps.
            let Ok(order) = orders.recv() else { return };
            let finish = match order {
                Order::Exchange(exchange) => {
                    self.begin(exchange);
                    self.complete_all(orders)
                }
                Order::Finish(answer) => Some(answer),
            };
            if let Some(answer) = finish {
                let _ = answer.send(self.functions.finish());
                return;
            }
        }
    }

    /// Begins and tests reductions until none is under way. Returns an order to finish that came
    /// meanwhile.
    fn complete_all(&mut self, orders: &Receiver<Order>) -> Option<Sender<Result<()>>> {
        let begun = Instant::now();
        let (mut changed, mut finish) = (begun, None);
        while !self.pending.is_empty() {
            match orders.try_recv() {
                Ok(Order::Exchange(exchange)) => {
                    self.begin(exchange);
                    changed = Instant::now();
                    continue;
                }
                Ok(Order::Finish(answer)) => finish = Some(answer),
                Err(_) => {}
            }
            if self.test() {
                changed = Instant::now();
            } else if changed.elapsed() < TESTED_WITHOUT_PAUSE {
                thread::yield_now();
            } else {
                thread::sleep(PAUSE);
            }
        }
        let nanoseconds = begun.elapsed().as_nanos() as u64;
        self.totals.busy_nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        finish
    }

    fn begin(&mut self, exchange: Exchange) {
        let Exchange { device, reduction, mut call } = exchange;
        let begun = operands(&mut call, reduction).and_then(|operands| {
            let communicator = self.devices[device].communicator;
            // SAFETY: the call, which is kept until the request is complete, keeps both buffers
            // alive, apart and to itself.
            unsafe { self.functions.all_reduce(&operands, communicator) }
        });
        match begun {
            Ok(request) => {
                self.totals.calls.fetch_add(1, Ordering::Relaxed);
                self.totals.bytes.fetch_add(call.operand_bytes(0) as u64, Ordering::Relaxed);
                self.pending.push(Pending { request, device, call });
                self.count_pending();
            }
            Err(error) => self.devices[device].end(call, Err(error)),
        }
    }

    /// Ends the calls whose reductions are complete; returns whether there was one.
    fn test(&mut self) -> bool {
        let before = self.pending.len();
        for mut pending in std::mem::take(&mut self.pending) {
            let outcome = match self.functions.is_complete(&mut pending.request) {
                Ok(false) => {
                    self.pending.push(pending);
                    continue;
                }
                Ok(true) => Ok(()),
                Err(error) => Err(error),
            };
            self.devices[pending.device].end(pending.call, outcome);
        }
        self.count_pending();
        self.pending.len() < before
    }

    fn count_pending(&self) {
        self.totals.pending.store(self.pending.len() as u64, Ordering::Relaxed);
    }
}

impl Device {
    /// Starts the thread that ends calls, and joins the same devices of all processes.
    fn start(functions: &Functions, device: usize) -> Result<Device> {
        let (ended, calls) = mpsc::channel::<Ended>();
        let end_calls = move || {
            flush_to_zero();
            for (call, outcome) in calls {
                call.finish(outcome.map_err(refusal));
            }
        };
        let thread = thread::Builder::new().name(format!("mpi-device-{device}"));
        let spawned = thread.stack_size(STACK_BYTES).spawn(end_calls);
        spawned.map_err(|error| Error::Thread { reason: error.to_string() })?;
        Ok(Device { communicator: functions.communicator()?, ended })
    }

    fn end(&self, call: DeferredCall, outcome: Result<()>) {
        // Only the engine's end ends the thread; a call that is dropped fails its execution.
        let _ = self.ended.send((call, outcome));
    }
}

/// The memory of a call.
fn operands(call: &mut DeferredCall, reduction: Reduction) -> Result<Operands> {
    let refused = |message: String| Error::Call { call: "MPI_Iallreduce", message };
    let dtype = call.operand_dtype(0);
    let found = dtype.and_then(|dtype| Some((dtype, datatype(dtype)?)));
    let (dtype, datatype) = found.ok_or_else(|| refused(format!("cannot add {dtype:?}")))?;
    let (from, to) = call.raw_buffers(0, 0).map_err(|error| refused(error.0))?;
    Ok(Operands {
        from: from.cast(),
        to: to.cast(),
        count: call.operand_bytes(0) / dtype.size_bytes(),
        datatype,
        operation: reduction.handle(),
    })
}
