//! The session with a device that records what it compiles and launches.

use std::error::Error as StdError;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use traind_xla::analysis::SentBytes;
use traind_xla::runtime::{CoreInputs, ExecutableSource, RecordedStep, Recorder};

use super::device::{CompiledProgram, ProgramCompiler, ProgramDevice};
use super::{CompiledReport, MemoryUsage, Observer, ProgramMemory, Session};
use crate::error::{Error, Result};
use crate::step::fixture::{Recorded, shape};
use crate::step::{Program, ProgramShape, StepConfig};

/// How long a test waits for a thread.
const PATIENCE: Duration = Duration::from_secs(60);

struct RecordedDevice {
    compiler: RecordedCompiler,
    prepared: Vec<String>,
    launched: Vec<String>,
}

/// A compiler that takes half a second a program, by its own account.
#[derive(Clone)]
struct RecordedCompiler {
    recorder: Recorder,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Programs that are not compiled until they are released.
    held: Vec<Program>,
    fails: Option<Program>,
    panics: Option<Program>,
    begun: Vec<Program>,
    running: usize,
    compiled: u64,
}

impl RecordedCompiler {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn release(&self, program: Program) {
        self.lock().held.retain(|held| *held != program);
        self.shared.changed.notify_all();
    }

    fn wait_while(&self, condition: impl FnMut(&mut State) -> bool) -> MutexGuard<'_, State> {
        let waited = self.shared.changed.wait_timeout_while(self.lock(), PATIENCE, condition);
        let (state, result) = waited.unwrap();
        assert!(!result.timed_out(), "begun: {:?}", state.begun);
        state
    }

    fn wait_until_begun(&self, program: Program) {
        drop(self.wait_while(|state| !state.begun.contains(&program)));
    }

    /// The program that a step was recorded from.
    fn program_of(recorded: &RecordedStep) -> Program {
        match recorded.fetched().first().map(String::as_str) {
            Some("loss") => Program::Train,
            _ if recorded.fetched().len() > 1 => Program::Evaluate,
            _ => Program::Predict,
        }
    }
}

impl ProgramCompiler for RecordedCompiler {
    type Step = ();

    fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn compile(&self, recorded: RecordedStep) -> Result<CompiledProgram<()>> {
        let program = RecordedCompiler::program_of(&recorded);
        self.lock().begun.push(program);
        self.lock().running += 1;
        self.shared.changed.notify_all();
        let mut state = self.wait_while(|state| state.held.contains(&program));
        state.running -= 1;
        if state.panics == Some(program) {
            // Else a thread that waits for the lock panics, too, because of the poison, and may be the first to say so.
            drop(state);
            panic!("the compiler is confused");
        }
        if state.fails == Some(program) {
            let name = "the compiler".to_owned();
            return Err(traind_models::Error::MissingInput { name }.into());
        }
        state.compiled += 1;
        Ok(CompiledProgram {
            sent: SentBytes::default(),
            step: (),
            seconds: 0.5,
            source: ExecutableSource::Compiled,
            text: self.recorder.lower(&recorded).text,
            flops: 100.0,
            kernel_sites: Vec::new(),
            warnings: Vec::new(),
            memory: Some(ProgramMemory {
                temporary_bytes: 1_000 * state.compiled,
                code_bytes: 10,
                ..ProgramMemory::default()
            }),
        })
    }
}

impl ProgramDevice for RecordedDevice {
    type Compiler = RecordedCompiler;
    type Launched = ();

    fn compile_threads(&self) -> usize {
        1
    }

    fn compiler(&self) -> RecordedCompiler {
        self.compiler.clone()
    }

    fn is_prepared(&self, key: &str) -> bool {
        self.prepared.iter().any(|prepared| prepared == key)
    }

    fn install(&mut self, key: &str, (): ()) {
        self.prepared.push(key.to_owned());
    }

    fn launch(&mut self, key: &str, _inputs: &CoreInputs) -> Result<()> {
        self.launched.push(key.to_owned());
        Ok(())
    }
}

/// The events that an observer has seen.
#[derive(Debug, Default)]
struct Seen(Mutex<Events>);

#[derive(Clone, Debug, Default)]
struct Events {
    /// The names of compiled programs, and whether each was compiled ahead.
    compiled: Vec<(String, bool)>,
    /// The text of the last one.
    text: String,
    /// Programs that are compiled, and that are needed.
    counts: (usize, usize),
    memory: MemoryUsage,
    /// Launches that wait for their programs, and those that have waited.
    waits: usize,
    waited: usize,
}

impl Seen {
    fn events(&self) -> Events {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Events> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Observer for Seen {
    fn compile_wait(&self, wait: &mut dyn FnMut()) {
        self.lock().waits += 1;
        wait();
        let mut events = self.lock();
        (events.waits, events.waited) = (events.waits - 1, events.waited + 1);
    }

    fn programs_counted(&self, compiled: usize, total: usize) {
        self.lock().counts = (compiled, total);
    }

    fn program_compiled(
        &self,
        program: &CompiledReport<'_>,
    ) -> std::result::Result<(), Box<dyn StdError + Send + Sync>> {
        let mut events = self.lock();
        events.compiled.push((program.shape.program.name().to_owned(), program.ahead));
        events.text = program.text.to_owned();
        Ok(())
    }

    fn memory_changed(&self, memory: MemoryUsage) {
        self.lock().memory = memory;
    }
}

/// A session, its compiler and what it reports.
struct Fixture {
    session: Session<RecordedDevice>,
    compiler: RecordedCompiler,
    seen: Arc<Seen>,
}

impl Fixture {
    /// A session with a batch in each step.
    fn new() -> Fixture {
        let Recorded { programs, recorder } = Recorded::of(&StepConfig::default()).unwrap();
        let compiler = RecordedCompiler { recorder, shared: Arc::default() };
        let device = RecordedDevice {
            compiler: compiler.clone(),
            prepared: Vec::new(),
            launched: Vec::new(),
        };
        let seen = Arc::<Seen>::default();
        let session = Session::new(vec![device], programs, Arc::clone(&seen) as Arc<dyn Observer>);
        Fixture { session, compiler, seen }
    }

    /// With programs that the compiler does not compile before they are released.
    fn holding(held: &[Program]) -> Fixture {
        let fixture = Fixture::new();
        fixture.compiler.lock().held = held.to_vec();
        fixture
    }

    /// Returns when the thread has begun the first program.
    fn prepare(&mut self, programs: &[Program]) {
        let shapes: Vec<ProgramShape> = programs.iter().map(|program| shape(*program)).collect();
        self.session.prepare(&shapes, || Ok(())).unwrap();
        self.compiler.wait_until_begun(programs[0]);
    }

    fn launch(&mut self, program: Program) -> Result<()> {
        self.session.launch(shape(program), &Vec::new())
    }

    /// Launches a program until that fails.
    fn launch_until_failed(&mut self, program: Program) -> Error {
        let start = std::time::Instant::now();
        loop {
            if let Err(error) = self.launch(program) {
                return error;
            }
            assert!(start.elapsed() < PATIENCE);
            std::thread::yield_now();
        }
    }

    /// Releases a program when a launch waits for it.
    fn release_when_awaited(&self, program: Program) -> std::thread::JoinHandle<()> {
        let (compiler, seen) = (self.compiler.clone(), Arc::clone(&self.seen));
        std::thread::spawn(move || {
            let start = std::time::Instant::now();
            while seen.lock().waits == 0 && start.elapsed() < PATIENCE {
                std::thread::yield_now();
            }
            compiler.release(program);
        })
    }

    /// The programs that were reported, and whether each was compiled ahead.
    fn compiled(&self) -> Vec<(String, bool)> {
        self.seen.events().compiled
    }
}

const ALL: [Program; 3] = [Program::Train, Program::Evaluate, Program::Predict];

#[test]
fn the_first_launch_waits_for_its_own_program_alone() {
    let mut fixture = Fixture::holding(&[Program::Evaluate]);
    fixture.prepare(&ALL);
    fixture.launch(Program::Train).unwrap();
    assert_eq!(fixture.session.devices[0].launched, [shape(Program::Train).key()]);
    assert_eq!(fixture.compiled(), [("train_step".to_owned(), true)]);
    fixture.compiler.wait_until_begun(Program::Evaluate);
    let events = fixture.seen.events();
    assert_eq!((events.counts, events.waits), ((1, 3), 0), "steps run while programs are compiled");
    fixture.compiler.release(Program::Evaluate);
}

#[test]
fn programs_are_compiled_once_and_in_the_order_given() {
    let mut fixture = Fixture::new();
    let [train, evaluate, predict] = ALL;
    fixture.prepare(&[evaluate, train, evaluate, predict, train]);
    for program in [train, evaluate, predict, train] {
        fixture.compiler.wait_until_begun(predict);
        fixture.launch(program).unwrap();
    }
    assert_eq!(fixture.compiler.lock().begun, [evaluate, train, predict]);
    assert_eq!(fixture.seen.events().counts, (3, 3));
}

#[test]
fn a_launch_waits_for_a_program_in_flight_and_is_reported_as_late() {
    let mut fixture = Fixture::holding(&[Program::Evaluate]);
    fixture.prepare(&ALL);
    fixture.launch(Program::Train).unwrap();
    fixture.compiler.wait_until_begun(Program::Evaluate);
    let waited = fixture.seen.events().waited;
    let releases = fixture.release_when_awaited(Program::Evaluate);
    fixture.launch(Program::Evaluate).unwrap();
    releases.join().unwrap();
    let begun = fixture.compiler.lock().begun.clone();
    assert_eq!(begun.iter().filter(|program| **program == Program::Evaluate).count(), 1);
    assert_eq!(
        fixture.compiled()[..2],
        [("train_step".to_owned(), true), ("eval_step".to_owned(), false)]
    );
    assert_eq!(fixture.seen.events().waited, waited + 1);
    assert!(fixture.session.compile_wait() > Duration::ZERO);
}

#[test]
fn a_launch_compiles_a_program_that_no_thread_has_begun() {
    let mut fixture = Fixture::holding(&[Program::Evaluate]);
    fixture.prepare(&ALL);
    fixture.launch(Program::Train).unwrap();
    fixture.compiler.wait_until_begun(Program::Evaluate);
    fixture.launch(Program::Predict).unwrap();
    let expect = [("train_step".to_owned(), true), ("predict_step".to_owned(), false)];
    assert_eq!(fixture.compiled(), expect);
    fixture.compiler.release(Program::Evaluate);
    fixture.launch(Program::Evaluate).unwrap();
    assert_eq!(fixture.compiler.lock().begun, ALL);
}

#[test]
fn a_program_that_was_not_prepared_is_compiled_at_its_launch() {
    let mut fixture = Fixture::new();
    fixture.prepare(&[Program::Train]);
    for program in [Program::Train, Program::Evaluate, Program::Evaluate] {
        fixture.launch(program).unwrap();
    }
    let expect = [("train_step".to_owned(), true), ("eval_step".to_owned(), false)];
    assert_eq!(fixture.compiled(), expect);
    assert_eq!(fixture.seen.events().counts, (2, 2));
}

#[test]
fn a_launch_fails_with_the_error_of_its_program() {
    let mut fixture = Fixture::new();
    fixture.compiler.lock().fails = Some(Program::Train);
    fixture.prepare(&ALL);
    let failed = fixture.launch(Program::Train);
    assert!(matches!(failed, Err(Error::Model(_))), "{failed:?}");
    assert!(fixture.session.devices[0].launched.is_empty());
}

#[test]
fn a_program_that_does_not_compile_ends_the_next_launch_of_any() {
    let mut fixture = Fixture::holding(&[Program::Evaluate]);
    fixture.compiler.lock().fails = Some(Program::Evaluate);
    fixture.prepare(&ALL);
    fixture.launch(Program::Train).unwrap();
    fixture.compiler.release(Program::Evaluate);
    let failed = fixture.launch_until_failed(Program::Train);
    assert!(matches!(failed, Error::Model(_)), "{failed:?}");
    assert_eq!(fixture.compiler.lock().begun, [Program::Train, Program::Evaluate]);
}

#[test]
fn a_compiler_that_panics_fails_the_launch() {
    let mut fixture = Fixture::new();
    fixture.compiler.lock().panics = Some(Program::Evaluate);
    fixture.prepare(&ALL);
    let failed = fixture.launch_until_failed(Program::Train);
    assert!(
        matches!(&failed, Error::Panicked(message) if message.contains("confused")),
        "{failed:?}"
    );
}

#[test]
fn dropping_a_session_waits_for_the_program_in_flight_and_begins_no_other() {
    let mut fixture = Fixture::holding(&[Program::Evaluate]);
    fixture.prepare(&ALL);
    fixture.launch(Program::Train).unwrap();
    fixture.compiler.wait_until_begun(Program::Evaluate);
    let Fixture { session, compiler, seen } = fixture;
    let waiting = session.queue.waiting();
    let drops = std::thread::spawn(move || drop(session));
    // The queue is empty once dropping has begun.
    let start = std::time::Instant::now();
    while waiting() > 0 {
        assert!(start.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
    assert_eq!(compiler.lock().running, 1);
    compiler.release(Program::Evaluate);
    drops.join().unwrap();
    let state = compiler.lock();
    assert_eq!((state.running, &state.begun[..]), (0, &ALL[..2]));
    assert_eq!(seen.events().compiled.len(), 2, "the last program is reported");
}

#[test]
fn work_that_waits_for_all_programs_is_done_once() {
    let mut fixture = Fixture::holding(&[Program::Predict]);
    let (sender, done) = std::sync::mpsc::channel();
    let report = move || {
        sender.send(()).unwrap();
        Ok(())
    };
    fixture.session.prepare(&ALL.map(shape), report).unwrap();
    fixture.launch(Program::Train).unwrap();
    fixture.compiler.wait_until_begun(Program::Predict);
    assert!(done.try_recv().is_err());
    fixture.compiler.release(Program::Predict);
    done.recv_timeout(PATIENCE).unwrap();
    drop(fixture);
    assert!(done.recv().is_err(), "it is not done again");
}

#[test]
fn memory_is_that_of_the_state_and_of_the_largest_program() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.seen.events().memory.temporary_bytes, 0);
    fixture.prepare(&[Program::Train, Program::Evaluate]);
    fixture.launch(Program::Train).unwrap();
    fixture.launch(Program::Evaluate).unwrap();
    let memory = fixture.seen.events().memory;
    assert_eq!((memory.temporary_bytes, memory.code_bytes), (2_000, 20));
    // Two moments, and the scalars that last from step to step.
    assert_eq!(memory.optimizer_bytes, 2 * memory.parameters_bytes + 12);
}

#[test]
fn lowered_programs_are_reported_for_debugging() {
    let mut fixture = Fixture::new();
    fixture.prepare(&[Program::Train]);
    fixture.launch(Program::Train).unwrap();
    assert!(fixture.seen.events().text.contains("func.func"));
}
