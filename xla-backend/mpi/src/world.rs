//! The processes of a job, as this one sees them.

use std::fmt;
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use crate::abi::Functions;
use crate::engine::{Engine, Order};
use crate::error::{Error, Result};
use crate::message::{Direction, Message, Peer};
use crate::process::Process;
use crate::totals::{Statistics, Totals};

/// The connection of this process to the others of its job. MPI lets a process have one.
pub struct World {
    rank: usize,
    size: usize,
    devices: usize,
    /// The engine's, whose thread makes all calls.
    orders: Mutex<Sender<Order>>,
    totals: Arc<Totals>,
}

static WORLD: OnceLock<World> = OnceLock::new();
/// Whether MPI was started.
static STARTED: Mutex<bool> = Mutex::new(false);

impl World {
    /// Joins the other processes of the job, which all call this with the same number of devices,
    /// and returns when they have. `library` is trusted: its code runs in this process. Call it
    /// before other threads read the environment.
    pub fn start(library: &Path, mut process: Process, devices: usize) -> Result<&'static World> {
        let functions = claim(library)?;
        process.announce();
        let (orders, received) = mpsc::channel();
        let (answer, outcome) = mpsc::channel();
        let (rank, size) = (process.rank, process.size);
        let totals = Arc::new(Totals::default());
        let of_engine = Arc::clone(&totals);
        let thread = thread::Builder::new().name("mpi".to_owned());
        let run = move || match Engine::start(functions, &process, devices, of_engine) {
            Ok(engine) => {
                let _ = answer.send(Ok(()));
                engine.run(&received);
            }
            Err(error) => drop(answer.send(Err(error))),
        };
        thread.spawn(run).map_err(|error| Error::Thread { reason: error.to_string() })?;
        outcome.recv().map_err(|_| ended_early())??;
        Ok(WORLD.get_or_init(|| World { rank, size, devices, orders: orders.into(), totals }))
    }

    /// The world that this process has joined.
    pub fn current() -> Result<&'static World> {
        WORLD.get().ok_or(Error::NotStarted)
    }

    /// The number of this process among those of the job.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of processes of the job.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The number of devices of each process.
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// Begins to send `bytes`, and returns at once. `then` gets them back when MPI has taken them. It runs on MPI's
    /// thread, so it is short and does not panic.
    pub fn send(
        &self,
        to: Peer,
        bytes: Vec<u8>,
        then: impl FnOnce(Result<Vec<u8>>) + Send + 'static,
    ) -> Result<()> {
        let (direction, then) = (Direction::Sent, Box::new(then));
        self.totals.message_sent(bytes.len());
        self.order(Order::Message(Message { direction, peer: to, bytes, then }))
    }

    /// Expects a message of `length` bytes, and returns at once. `then` gets them when they have arrived, under the
    /// same conditions. A longer message is an error.
    pub fn receive(
        &self,
        from: Peer,
        length: usize,
        then: impl FnOnce(Result<Vec<u8>>) + Send + 'static,
    ) -> Result<()> {
        let (direction, then) = (Direction::Received, Box::new(then));
        let bytes = vec![0; length];
        self.order(Order::Message(Message { direction, peer: from, bytes, then }))
    }

    pub fn statistics(&self) -> Statistics {
        self.totals.statistics()
    }

    /// Leaves the other processes, which all call this; returns when they have. A launcher takes a
    /// process that ends without this for a failed one.
    pub fn finish(&self) -> Result<()> {
        let (answer, outcome) = mpsc::channel();
        self.order(Order::Finish(answer))?;
        outcome.recv().map_err(|_| Error::Ended)?
    }

    pub(crate) fn order(&self, order: Order) -> Result<()> {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.send(order).map_err(|_| Error::Ended)
    }
}

/// Loads a library for the only start of MPI in this process. A library that is refused leaves the process as it was.
pub(crate) fn claim(library: &Path) -> Result<Functions> {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if *started {
        return Err(Error::StartedBefore);
    }
    let functions = Functions::load(library)?;
    *started = true;
    Ok(functions)
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let World { rank, size, devices, .. } = self;
        write!(f, "process {rank} of {size} with {devices} devices")
    }
}

fn ended_early() -> Error {
    Error::Thread { reason: "it ended while MPI started".to_owned() }
}
