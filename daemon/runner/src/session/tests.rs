//! The session with a device that records what it compiles and launches.

use std::path::Path;
use std::sync::Mutex;

use traind_proto::event_log::EventLogReader;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{CompileSource, ProgramMemory};
use traind_xla::runtime::{CoreInputs, RecordedStep, Recorder};

use super::Session;
use super::device::{CompiledProgram, ProgramDevice};
use crate::control::{Activity, Journal, Reporter};
use crate::error::{RunError, RunResult};
use crate::step::tests::{Recorded, shape};
use crate::step::{Program, ProgramShape};

/// A device whose compiler takes half a second a program, by its own account.
struct RecordedDevice {
    recorder: Recorder,
    prepared: Vec<String>,
    launched: Vec<String>,
    compiled: Mutex<usize>,
    /// The compiler fails from this program on.
    fails_from: usize,
}

impl ProgramDevice for RecordedDevice {
    type Step = ();
    type Launched = ();

    fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn is_prepared(&self, key: &str) -> bool {
        self.prepared.iter().any(|prepared| prepared == key)
    }

    fn compile(&self, recorded: RecordedStep) -> RunResult<CompiledProgram<()>> {
        let mut compiled = self.compiled.lock().unwrap();
        if *compiled == self.fails_from {
            let name = "the compiler".to_owned();
            return Err(traind_models::Error::MissingInput { name }.into());
        }
        *compiled += 1;
        Ok(CompiledProgram {
            step: (),
            seconds: 0.5,
            source: CompileSource::Compiled,
            text: self.recorder.lower(&recorded).text,
            flops: 100.0,
            memory: Some(ProgramMemory {
                temporary_bytes: 1_000 * *compiled as u64,
                code_bytes: 10,
                ..ProgramMemory::default()
            }),
        })
    }

    fn install(&mut self, key: &str, (): ()) {
        self.prepared.push(key.to_owned());
    }

    fn launch(&mut self, key: &str, _inputs: &CoreInputs) -> RunResult<()> {
        self.launched.push(key.to_owned());
        Ok(())
    }
}

fn session(folder: &Path, sections: &str) -> Session<RecordedDevice> {
    let Recorded { programs, recorder } = Recorded::of_job(sections);
    let device = RecordedDevice {
        recorder,
        prepared: Vec::new(),
        launched: Vec::new(),
        compiled: Mutex::new(0),
        fails_from: usize::MAX,
    };
    let journal = Journal::open(&folder.join("events.log")).unwrap();
    let reporter = Reporter { journal, activity: Activity::new() };
    Session::new(device, programs, reporter, folder)
}

/// The programs of the compile events, and whether each was compiled ahead.
fn compiled(folder: &Path) -> Vec<(String, bool)> {
    let log = EventLogReader::open(&folder.join("events.log")).unwrap();
    let events = log.read_from(0).unwrap().into_iter();
    let compiled = events.filter_map(|logged| match logged.event.kind {
        Some(Kind::Compiled(compiled)) => Some((compiled.program, compiled.ahead)),
        _ => None,
    });
    compiled.collect()
}

fn train_and_evaluate() -> [ProgramShape; 2] {
    [Program::Train, Program::Evaluate].map(shape)
}

#[test]
fn each_program_is_compiled_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path(), "");
    let [train, evaluate] = train_and_evaluate();
    session.prepare(&[train, train]).unwrap();
    session.prepare(&[train, evaluate]).unwrap();
    session.prepare(&[]).unwrap();
    let expect = [("train_step".to_owned(), true), ("eval_step".to_owned(), true)];
    assert_eq!(compiled(folder.path()), expect);
    assert_eq!(session.device.prepared, [train.key(), evaluate.key()]);
}

#[test]
fn a_program_that_is_missing_at_its_launch_is_compiled_and_reported_as_late() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path(), "");
    let [train, evaluate] = train_and_evaluate();
    session.prepare(&[train]).unwrap();
    for shape in [train, evaluate, evaluate] {
        session.launch(shape, &Vec::new()).unwrap();
    }
    let expect = [("train_step".to_owned(), true), ("eval_step".to_owned(), false)];
    assert_eq!(compiled(folder.path()), expect);
    assert_eq!(session.device.launched, [train.key(), evaluate.key(), evaluate.key()]);
}

#[test]
fn a_program_that_does_not_compile_ends_the_preparation() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path(), "");
    session.device.fails_from = 1;
    let failed = session.prepare(&train_and_evaluate());
    assert!(matches!(failed, Err(RunError::Model(_))), "{failed:?}");
    assert!(session.device.prepared.is_empty(), "none is installed without the others");
}

#[test]
fn memory_is_that_of_the_state_and_of_the_largest_program() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path(), "train: {optim: adamw_torch}");
    assert_eq!(session.memory().temporary_bytes, 0);
    session.prepare(&train_and_evaluate()).unwrap();
    let memory = session.memory();
    assert_eq!((memory.temporary_bytes, memory.code_bytes), (2_000, 20));
    // Two moments, and the scalars that last from step to step.
    assert_eq!(memory.optimizer_bytes, 2 * memory.parameters_bytes + 12);
}

#[test]
fn lowered_programs_are_kept_for_debugging() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path(), "");
    let [train, _] = train_and_evaluate();
    session.prepare(&[train]).unwrap();
    let file = folder.path().join(format!("programs/{}.mlir", train.key()));
    assert!(std::fs::read_to_string(file).unwrap().contains("func.func"));
}
