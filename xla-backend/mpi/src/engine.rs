//! The thread that makes all calls of MPI: it begins reductions and messages as they are ordered, and tests
//! those under way until they are complete. Threads of the devices then continue the programs.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use traind_pjrt::{DeferredCall, flush_to_zero};

use crate::abi::{COMM_WORLD, Functions, Handle, Operands, Request};
use crate::collective::{BYTE, Collective, datatype};
use crate::error::{Error, Result, refusal};
use crate::message::{Direction, Message};
use crate::process::Process;
use crate::totals::Totals;

/// Reductions of small values are complete within this time, if all hosts are as fast. Testing
/// without a pause leaves the processor to others that are ready to run.
const TESTED_WITHOUT_PAUSE: Duration = Duration::from_micros(500);
/// A pause between tests: short beside the time that the buffers of a fast network last.
const PAUSE: Duration = Duration::from_micros(50);

/// The stack of a thread on which programs continue: as large as that of a main thread.
const STACK_BYTES: usize = 8 << 20;

/// A request of another thread to the engine.
pub(crate) enum Order {
    Exchange(Exchange),
    Message(Message),
    Finish(Sender<Result<()>>),
}

/// A collective of one device.
pub(crate) struct Exchange {
    pub device: usize,
    pub collective: Collective,
    pub call: DeferredCall,
}

/// A reduction or a message that MPI has begun.
struct Pending {
    request: Request,
    work: Work,
}

/// The owner of the memory of a request.
enum Work {
    Reduction { device: usize, call: DeferredCall },
    Message(Message),
}

/// A call that ends, and how.
type Ended = (DeferredCall, Result<()>);

pub(crate) struct Engine {
    functions: Functions,
    /// The number of processes of the group, whose devices exchange data.
    processes: usize,
    devices: Vec<Device>,
    /// The communicator of all processes. No reduction uses it.
    messages: Handle,
    pending: Vec<Pending>,
    totals: Arc<Totals>,
}

/// The engine's state for a device.
struct Device {
    communicator: Handle,
    /// To the thread that ends the device's calls. It continues the device's program, which may wait
    /// there for another device, so that no two devices have the same.
    ended: Sender<Ended>,
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
        let group = functions.group(process.group, rank)?;
        let devices = (0..devices).map(|device| Device::start(&functions, device, group));
        let devices = devices.collect::<Result<_>>()?;
        let processes = functions.size(group)?;
        let messages = functions.communicator(COMM_WORLD)?;
        Ok(Engine { functions, processes, devices, messages, pending: Vec::new(), totals })
    }

    /// Follows orders until MPI is finished.
    pub(crate) fn run(mut self, orders: &Receiver<Order>) {
        loop {
            // Nothing is under way: the thread sleeps.
            let Ok(order) = orders.recv() else { return };
            let finish = self.begin(order).or_else(|| self.complete_all(orders));
            if let Some(answer) = finish {
                let _ = answer.send(self.functions.finish());
                return;
            }
        }
    }

    /// Begins and tests requests until none is under way. Returns an order to finish that came
    /// meanwhile.
    fn complete_all(&mut self, orders: &Receiver<Order>) -> Option<Sender<Result<()>>> {
        let (mut changed, mut finish) = (Instant::now(), None);
        while !self.pending.is_empty() {
            if let Ok(order) = orders.try_recv() {
                finish = self.begin(order).or(finish);
                changed = Instant::now();
                continue;
            }
            if self.test() {
                changed = Instant::now();
            } else if changed.elapsed() < TESTED_WITHOUT_PAUSE {
                thread::yield_now();
            } else {
                thread::sleep(PAUSE);
            }
        }
        finish
    }

    /// Begins a request. Returns an order to finish.
    fn begin(&mut self, order: Order) -> Option<Sender<Result<()>>> {
        match order {
            Order::Exchange(exchange) => self.begin_reduction(exchange),
            Order::Message(message) => self.begin_message(message),
            Order::Finish(answer) => return Some(answer),
        }
        None
    }

    fn begin_message(&mut self, mut message: Message) {
        let (functions, peer, communicator) = (&self.functions, message.peer, self.messages);
        // SAFETY: the message, which is kept until the request is complete, keeps its bytes where they are, and to
        // itself.
        let begun = unsafe {
            match message.direction {
                Direction::Sent => functions.send(&message.bytes, peer, communicator),
                Direction::Received => functions.receive(&mut message.bytes, peer, communicator),
            }
        };
        match begun {
            Ok(request) => self.pending.push(Pending { request, work: Work::Message(message) }),
            Err(error) => (message.then)(Err(error)),
        }
    }

    fn begin_reduction(&mut self, exchange: Exchange) {
        let Exchange { device, collective, mut call } = exchange;
        let begun = operands(&mut call, collective, self.processes).and_then(|operands| {
            let communicator = self.devices[device].communicator;
            // SAFETY: the call, which is kept until the request is complete, keeps both buffers
            // alive, apart and to itself, and their sizes are those that the collective needs.
            unsafe { self.functions.begin(collective.call(), &operands, communicator) }
        });
        match begun {
            Ok(request) => {
                self.totals.reduction_begun(call.operand_bytes(0));
                self.pending.push(Pending { request, work: Work::Reduction { device, call } });
            }
            Err(error) => self.devices[device].end(call, Err(error)),
        }
    }

    /// Ends the work whose requests are complete; returns whether there was one.
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
            self.end(pending.work, outcome);
        }
        self.pending.len() < before
    }

    fn end(&self, work: Work, outcome: Result<()>) {
        match work {
            Work::Reduction { device, call } => {
                self.totals.reduction_ended();
                self.devices[device].end(call, outcome);
            }
            Work::Message(Message { bytes, then, .. }) => then(outcome.map(|()| bytes)),
        }
    }
}

impl Device {
    /// Starts the thread that ends calls, and joins the same devices of the processes of `group`.
    fn start(functions: &Functions, device: usize, group: Handle) -> Result<Device> {
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
        Ok(Device { communicator: functions.communicator(group)?, ended })
    }

    fn end(&self, call: DeferredCall, outcome: Result<()>) {
        // Only the engine's end ends the thread; a call that is dropped fails its execution.
        let _ = self.ended.send((call, outcome));
    }
}

/// The memory of a call, whose result has the size that the collective gives it.
fn operands(call: &mut DeferredCall, collective: Collective, processes: usize) -> Result<Operands> {
    let name = collective.call().name();
    let refused = |message: String| Error::Call { call: name, message };
    let (dtype, operand_bytes) = (call.operand_dtype(0), call.operand_bytes(0));
    let (datatype, bytes) = match (collective, dtype) {
        // Nothing is added, so that all types do.
        (Collective::AllGather, _) => (BYTE, 1),
        (_, Some(dtype)) => {
            let datatype =
                datatype(dtype).ok_or_else(|| refused(format!("cannot add {dtype:?}")))?;
            (datatype, dtype.size_bytes())
        }
        (_, None) => return Err(refused("cannot add what kernels do not take".to_owned())),
    };
    let (part_bytes, result_bytes) = match collective {
        Collective::AllReduce(_) => (operand_bytes, operand_bytes),
        Collective::ReduceScatter(_) => (operand_bytes / processes, operand_bytes / processes),
        Collective::AllGather => (operand_bytes, operand_bytes * processes),
    };
    let scatters = matches!(collective, Collective::ReduceScatter(_));
    let is_whole = !scatters || part_bytes * processes == operand_bytes;
    if !is_whole || !part_bytes.is_multiple_of(bytes) {
        return Err(refused(format!("{operand_bytes} bytes for {processes} processes")));
    }
    let (from, to) = call.raw_buffers(0, 0, result_bytes).map_err(|error| refused(error.0))?;
    Ok(Operands { from: from.cast(), to: to.cast(), count: part_bytes / bytes, datatype })
}
