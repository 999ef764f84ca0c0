//! Compiles programs in the order of their first use, on threads of its own, while steps run. A step
//! whose program is not compiled yet waits for that one alone.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use traind_loader::panic_message;
use traind_xla::runtime::Recorder;

use super::builder::ProgramBuilder;
use super::compilers::{COMPILERS_POLL, MustStop, end_compilers};
use super::device::{CompiledProgram, ProgramCompiler};
use super::priority;
use crate::error::{Error, Result};
use crate::step::ProgramShape;

/// Work to do when no program is left.
pub(super) type WhenDone = Box<dyn FnOnce() -> Result<()> + Send>;

/// Dropping it waits for the programs in flight, since a process must not end while its plugin
/// compiles, and abandons the others.
pub(super) struct ProgramQueue<C: ProgramCompiler> {
    shared: Arc<Shared<C>>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared<C: ProgramCompiler> {
    builder: ProgramBuilder<C>,
    state: Mutex<State<C::Step>>,
    /// A program is compiled, or one has failed.
    changed: Condvar,
}

struct State<S> {
    /// Programs that no thread has begun, in the order of their first use.
    waiting: VecDeque<ProgramShape>,
    in_flight: Vec<ProgramShape>,
    /// Programs to be installed.
    compiled: Vec<(ProgramShape, CompiledProgram<S>)>,
    /// The first error. Nothing is compiled after it.
    failure: Option<Error>,
    /// The program that a launch waits for.
    awaited: Option<ProgramShape>,
    /// Whether a whole step was launched.
    has_stepped: bool,
    compiled_count: usize,
    total: usize,
    when_done: Option<WhenDone>,
    /// The queue is dropped.
    is_closed: bool,
}

impl<C: ProgramCompiler> ProgramQueue<C> {
    /// A queue without programs.
    pub(super) fn new(builder: ProgramBuilder<C>) -> ProgramQueue<C> {
        let state = State {
            waiting: VecDeque::new(),
            in_flight: Vec::new(),
            compiled: Vec::new(),
            failure: None,
            awaited: None,
            has_stepped: false,
            compiled_count: 0,
            total: 0,
            when_done: None,
            is_closed: false,
        };
        let shared = Shared { builder, state: Mutex::new(state), changed: Condvar::new() };
        ProgramQueue { shared: Arc::new(shared), threads: Vec::new() }
    }

    /// Ends the compilers, which are processes of their own and may take minutes, once the run has to stop and waits
    /// for one of them, or the queue is dropped.
    pub(super) fn end_compilers_on(&mut self, must_stop: MustStop) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("compilers".to_owned());
        let watch = move || {
            while !shared.is_idle_and_closed() {
                if shared.abandons(&must_stop) {
                    end_compilers();
                }
                std::thread::sleep(COMPILERS_POLL);
            }
        };
        self.threads.push(thread.spawn(watch).map_err(Error::Thread)?);
        Ok(())
    }

    /// Counts the programs that no thread has begun, also after the queue was moved.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> impl Fn() -> usize + use<C> {
        let shared = Arc::clone(&self.shared);
        move || shared.lock().waiting.len()
    }

    /// The recorder of the programs of a stage.
    pub(super) fn recorder(&self, stage: usize) -> &Recorder {
        self.shared.builder.compilers[stage].recorder()
    }

    /// Starts to compile `shapes` on as many as `threads_max` threads.
    pub(super) fn start(
        &mut self,
        shapes: Vec<ProgramShape>,
        threads_max: usize,
        when_done: WhenDone,
    ) -> Result<()> {
        let threads = threads_max.min(shapes.len());
        let mut state = self.shared.lock();
        state.total += shapes.len();
        state.waiting.extend(shapes);
        state.when_done = Some(when_done);
        self.shared.report_progress(&state);
        drop(state);
        for _ in 0..threads {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("compile".to_owned());
            let thread = thread.spawn(move || shared.work()).map_err(Error::Thread)?;
            self.threads.push(thread);
        }
        Ok(())
    }

    /// Takes the programs compiled since the last call. Fails if one could not be compiled.
    pub(super) fn compiled(&self) -> Result<Vec<(ProgramShape, CompiledProgram<C::Step>)>> {
        let mut state = self.shared.lock();
        match state.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(std::mem::take(&mut state.compiled)),
        }
    }

    /// Returns when a program is compiled or one has failed. Compiles it on the calling thread if no
    /// other has begun it.
    pub(super) fn complete(&self, shape: ProgramShape) {
        let mut state = self.shared.lock();
        state.awaited = Some(shape);
        if state.claim(shape) {
            drop(state);
            self.shared.compile(shape);
            state = self.shared.lock();
        }
        while state.failure.is_none() && state.in_flight.contains(&shape) {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.awaited = None;
    }

    /// Notes that a whole step was launched.
    pub(super) fn step_launched(&self) {
        self.shared.lock().has_stepped = true;
    }
}

impl<C: ProgramCompiler> Drop for ProgramQueue<C> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.waiting.clear();
        state.is_closed = true;
        drop(state);
        for thread in self.threads.drain(..) {
            // Panics of the compiler were caught inside.
            let _ = thread.join();
        }
    }
}

impl<C: ProgramCompiler> Shared<C> {
    fn is_idle_and_closed(&self) -> bool {
        let state = self.lock();
        state.is_closed && state.in_flight.is_empty()
    }

    /// Whether nobody needs the programs in flight any longer. A run that waits for one gets an error.
    fn abandons(&self, must_stop: &MustStop) -> bool {
        let mut state = self.lock();
        let is_awaited = state.awaited.is_some_and(|shape| state.in_flight.contains(&shape));
        let is_stopped = is_awaited && must_stop();
        if is_stopped {
            state.fail(Error::Abandoned);
            self.changed.notify_all();
        }
        is_stopped || state.is_closed
    }

    fn work(&self) {
        while let Some((shape, is_first)) = self.next() {
            // Steps run while all programs but the first are compiled.
            if !is_first {
                priority::lower(priority::BESIDE_STEPS);
            }
            self.compile(shape);
        }
    }

    fn next(&self) -> Option<(ProgramShape, bool)> {
        self.lock().next()
    }

    /// Compiles a program in flight.
    fn compile(&self, shape: ProgramShape) {
        let build = AssertUnwindSafe(|| {
            let built = self.builder.build(shape)?;
            let ahead = self.lock().is_ahead(shape);
            self.builder.report(shape, &built, ahead)?;
            Ok(built.compiled)
        });
        let built = catch_unwind(build)
            .unwrap_or_else(|panic| Err(Error::Panicked(panic_message(panic.as_ref()))));
        let mut state = self.lock();
        state.finish(shape, built);
        self.report_progress(&state);
        let when_done = state.take_when_done();
        drop(state);
        self.changed.notify_all();
        if let Some(Err(failure)) = when_done.map(|when_done| when_done()) {
            self.lock().fail(failure);
        }
    }

    fn report_progress(&self, state: &State<C::Step>) {
        self.builder.observer.programs_counted(state.compiled_count, state.total);
    }

    fn lock(&self) -> MutexGuard<'_, State<C::Step>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> State<S> {
    /// Begins the next program. Returns also whether it is the first of all.
    fn next(&mut self) -> Option<(ProgramShape, bool)> {
        let is_first = self.compiled_count == 0 && self.in_flight.is_empty();
        let shape = self.waiting.pop_front()?;
        self.in_flight.push(shape);
        Some((shape, is_first))
    }

    /// Begins a program out of turn. Returns false if that is done already.
    fn claim(&mut self, shape: ProgramShape) -> bool {
        let is_compiled = self.compiled.iter().any(|(compiled, _)| *compiled == shape);
        if self.failure.is_some() || is_compiled || self.in_flight.contains(&shape) {
            return false;
        }
        match self.waiting.iter().position(|waiting| *waiting == shape) {
            Some(index) => drop(self.waiting.remove(index)),
            None => self.total += 1,
        }
        self.in_flight.push(shape);
        true
    }

    fn finish(&mut self, shape: ProgramShape, built: Result<CompiledProgram<S>>) {
        self.in_flight.retain(|in_flight| *in_flight != shape);
        match built {
            Ok(program) => {
                self.compiled_count += 1;
                self.compiled.push((shape, program));
            }
            Err(failure) => self.fail(failure),
        }
    }

    fn fail(&mut self, failure: Error) {
        self.failure.get_or_insert(failure);
        self.waiting.clear();
    }

    /// Whether no step after the first waits for the program.
    fn is_ahead(&self, shape: ProgramShape) -> bool {
        !self.has_stepped || self.awaited != Some(shape)
    }

    fn take_when_done(&mut self) -> Option<WhenDone> {
        let is_done = self.waiting.is_empty() && self.in_flight.is_empty();
        self.when_done.take_if(|_| is_done)
    }
}
