//! The training loop with a device that records what it runs.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use traind_job_file::{InputTokens, JobFile};
use traind_loader::Prefetched;
use traind_models::optimizers::{Optimizers, Settings};
use traind_models::tasks::preference::Metric;
use traind_proto::sample_ledger::{LedgerHead, SampleLedger};
use traind_trainer::Result as TrainerResult;
use traind_trainer::train_loop::{Launched, LoopDevice};
use traind_xla::runtime::{HandOver, HostArray};

use super::batches::TrainBatch;
use super::pauses::Pauses;
use super::{Ledger, StepLog, Trainer, Updates};
use crate::error::RunResult;
use crate::hosts::{Hosts, StopAgreement};
use crate::output::Reports;
use crate::profile::HostCores;
use crate::progress::{Plateau, Progress, StepCounts, Timetable};
use crate::reporting::{Activity, Journal, Reporter, StepGates, Stop, StopReason};
use crate::session::{LossScaleResult, StepResults};

/// The calls of the device and of the pauses, in order.
type Calls = Rc<RefCell<Vec<String>>>;

/// A device whose steps have given results.
struct RecordedDevice {
    steps_in_flight_max: usize,
    /// The result of each step: loss, and with `fp16` the scale and whether it updated.
    results: Vec<(f32, Option<(f32, bool)>)>,
    launched_steps: usize,
    batches_per_step: u64,
    /// Requests a stop while this batch is launched.
    stop_at: Option<(u64, StopReason, Stop)>,
    calls: Calls,
}

struct RecordedProgram {
    name: String,
    results: StepResults,
    calls: Calls,
}

impl RecordedDevice {
    fn program(&mut self, name: String) -> RecordedProgram {
        self.calls.borrow_mut().push(format!("launch {name}"));
        let (loss, scale) = self.results[self.launched_steps % self.results.len()];
        let loss_scale = scale.map(|(scale, updated)| LossScaleResult { scale, updated });
        let loss = f64::from(loss);
        let metrics = vec![2.0 * loss];
        let results = StepResults { loss, grad_norm: 1.0, metrics, loss_scale };
        RecordedProgram { name, results, calls: Rc::clone(&self.calls) }
    }
}

impl LoopDevice for RecordedDevice {
    type Batch = u64;
    type Launched = RecordedProgram;

    fn steps_in_flight_max(&self) -> usize {
        self.steps_in_flight_max
    }

    fn skips_updates(&self) -> bool {
        self.results.iter().any(|(_, scale)| scale.is_some())
    }

    fn compile_wait(&self) -> Duration {
        Duration::ZERO
    }

    fn launch_batch(&mut self, batch: &u64) -> TrainerResult<RecordedProgram> {
        if let Some((stop_at, reason, stop)) = &self.stop_at
            && stop_at == batch
        {
            stop.request(*reason);
        }
        let program = self.program(format!("batch {batch}"));
        self.launched_steps += usize::from(self.batches_per_step == 1);
        Ok(program)
    }

    fn launch_update(&mut self, scalars: &HostArray) -> TrainerResult<RecordedProgram> {
        let learning_rate = scalars.to_f32()?[0];
        let program = self.program(format!("update at {learning_rate}"));
        self.launched_steps += 1;
        Ok(program)
    }
}

impl Launched for RecordedProgram {
    fn hand_over(&self) -> HandOver {
        HandOver { dispatch: Duration::ZERO, compute: Duration::ZERO }
    }

    fn wait(&self) -> TrainerResult<()> {
        self.calls.borrow_mut().push(format!("wait for {}", self.name));
        Ok(())
    }

    fn results(self) -> TrainerResult<StepResults> {
        self.calls.borrow_mut().push(format!("read {}", self.name));
        Ok(self.results)
    }
}

/// Pauses at every `interval` steps, with nothing to do.
struct RecordedPauses {
    interval: u64,
    /// Whether they begin with an evaluation that precedes a log.
    evaluates: bool,
    calls: Calls,
}

impl Pauses<RecordedDevice> for RecordedPauses {
    fn start(
        &mut self,
        _device: &mut RecordedDevice,
        _progress: &mut Progress,
        _log: &mut StepLog,
    ) -> RunResult<()> {
        Ok(())
    }

    fn are_due(&self, done: u64) -> bool {
        done.is_multiple_of(self.interval)
    }

    fn pause(
        &mut self,
        _device: &mut RecordedDevice,
        progress: &mut Progress,
        log: &mut StepLog,
    ) -> RunResult<()> {
        self.calls.borrow_mut().push(format!("pause after {}", progress.steps));
        let logged = progress.log_history.len();
        log.write_held(progress)?;
        if progress.log_history.len() > logged {
            self.calls.borrow_mut().push(format!("log of {}", progress.steps));
        }
        Ok(())
    }

    fn evaluates_before_logs(&self, done: u64) -> bool {
        self.evaluates && self.are_due(done)
    }

    fn stop_early(&self, _progress: &Progress) -> bool {
        false
    }

    fn save_before_exit(
        &mut self,
        _device: &mut RecordedDevice,
        progress: &mut Progress,
    ) -> RunResult<()> {
        self.calls.borrow_mut().push(format!("save after {}", progress.steps));
        Ok(())
    }
}

/// A run on a recorded device.
struct Run {
    /// Lines of the job file's `train` section.
    train: &'static str,
    batches_per_step: u64,
    steps_in_flight_max: usize,
    pause_interval: u64,
    evaluates: bool,
    results: Vec<(f32, Option<(f32, bool)>)>,
    stop_at: Option<(u64, StopReason)>,
}

impl Default for Run {
    fn default() -> Run {
        Run {
            train: "max_steps: 3, logging_steps: 1",
            batches_per_step: 1,
            steps_in_flight_max: 1,
            pause_interval: u64::MAX,
            evaluates: false,
            results: vec![(2.0, None)],
            stop_at: None,
        }
    }
}

/// The calls of a run, and what it left.
struct Ran {
    result: RunResult<()>,
    calls: Vec<String>,
    progress: Progress,
    /// The rows of each step in the ledger.
    rows: Vec<Vec<u64>>,
}

impl Run {
    fn run(self) -> Ran {
        let folder = tempfile::tempdir().unwrap();
        let timetable = timetable(self.train);
        let calls = Calls::default();
        let stop = Stop::default();
        let stop_at = self.stop_at.map(|(batch, reason)| (batch, reason, stop.clone()));
        let mut device = RecordedDevice {
            steps_in_flight_max: self.steps_in_flight_max,
            results: self.results,
            launched_steps: 0,
            batches_per_step: self.batches_per_step,
            stop_at,
            calls: Rc::clone(&calls),
        };
        let (interval, evaluates) = (self.pause_interval, self.evaluates);
        let pauses = RecordedPauses { interval, evaluates, calls: Rc::clone(&calls) };
        let mut trainer = trainer(folder.path(), &timetable, pauses, stop);
        let batches = batches(&timetable, &trainer.updates, self.batches_per_step == 1);
        let result = trainer.run(&mut device, batches.into_iter().map(Ok));
        let ledger = SampleLedger::read(folder.path()).unwrap().unwrap();
        let rows = (1..=trainer.progress.steps)
            .map(|step| ledger.step(step).unwrap().iter().map(|row| row.row).collect());
        let rows = rows.collect();
        Ran { result, calls: calls.take(), progress: trainer.progress, rows }
    }
}

fn timetable(train: &str) -> Timetable {
    let yaml = format!(
        "{{name: a, model: {{name_or_path: ./a, task: sequence-classification, num_labels: 2}}, \
         data: {{train: a.csv}}, output_dir: out, train: {{{train}, learning_rate: 1.0}}}}"
    );
    let job = JobFile::parse(&yaml, Path::new("/")).unwrap().job;
    Timetable::new(&job.train, 100).unwrap()
}

fn trainer(
    folder: &Path,
    timetable: &Timetable,
    pauses: RecordedPauses,
    stop: Stop,
) -> Trainer<RecordedPauses> {
    let journal = Journal::open(&folder.join("events.log")).unwrap();
    let optimizers = Optimizers::new("sgd", &Settings::default(), &[]).unwrap();
    let files = vec![("a.csv".to_owned(), 1000)];
    Trainer {
        timetable: timetable.clone(),
        updates: Updates::new(timetable.clone(), Arc::new(optimizers)),
        progress: Progress::default(),
        pauses,
        log: StepLog::new(
            journal.clone(),
            Reports::default(),
            timetable.clone(),
            InputTokens::All,
            &[Metric { name: "twice", presence: None }],
        ),
        ledger: Some(
            Ledger::open(folder, LedgerHead { rows_per_step: 4, files, sets: Vec::new() }).unwrap(),
        ),
        reporter: Reporter { journal, activity: Activity::new() },
        agreement: StopAgreement::new(Hosts::alone(), stop.clone()),
        stop,
        gates: StepGates::from_environment("a"),
        cores: HostCores { count: 1, are_processors: false },
    }
}

/// All batches of the run, each of one row.
fn batches(
    timetable: &Timetable,
    updates: &Updates,
    fused: bool,
) -> Vec<Prefetched<TrainBatch<u64>>> {
    let count = timetable.batches_before(timetable.max_steps);
    let batch = |batch| {
        let position = timetable.position(batch);
        let batch = TrainBatch {
            position,
            counts: StepCounts {
                batches: 1,
                samples: 1,
                tokens: 10,
                padded_tokens: 12,
                flos: 100.0,
            },
            source_rows: vec![batch as u32],
            decoding: Duration::ZERO,
            update: fused.then(|| updates.after(position.step, &Plateau::default()).unwrap()),
            inputs: batch,
        };
        Prefetched { batch, waited: Duration::ZERO }
    };
    (0..count).map(batch).collect()
}

#[test]
fn the_next_step_is_launched_before_the_last_is_read() {
    let ran = Run { steps_in_flight_max: 2, ..Run::default() }.run();
    ran.result.unwrap();
    let expect = [
        "launch batch 0",
        "launch batch 1",
        "wait for batch 0",
        "read batch 0",
        "launch batch 2",
        "wait for batch 1",
        "read batch 1",
        "wait for batch 2",
        "read batch 2",
    ];
    assert_eq!(ran.calls, expect);
    assert_eq!(ran.rows, [[0], [1], [2]]);
}

/// As the Trainer does where it evaluates by steps and logs by epochs.
#[test]
fn an_evaluation_may_precede_the_log_of_its_step() {
    let run = Run { pause_interval: 2, evaluates: true, ..Run::default() };
    let ran = run.run();
    ran.result.unwrap();
    let calls: Vec<_> = ran.calls.iter().filter(|call| !call.contains("batch")).collect();
    assert_eq!(calls, ["pause after 2", "log of 2"]);
    let logged = ran.progress.log_history.iter().map(|entry| (&entry["step"], &entry["loss"]));
    let loss = serde_json::json!(2.0);
    let steps = [1, 2, 3].map(serde_json::Value::from);
    assert!(logged.eq(steps.iter().map(|step| (step, &loss))), "{:?}", ran.progress.log_history);
}

#[test]
fn a_step_of_several_batches_ends_with_an_update() {
    let train = "max_steps: 2, logging_steps: 1, gradient_accumulation_steps: 2";
    let ran = Run { train, batches_per_step: 2, ..Run::default() }.run();
    ran.result.unwrap();
    let step = |first: u64, learning_rate: &str| {
        [
            format!("launch batch {first}"),
            format!("wait for batch {first}"),
            format!("launch batch {}", first + 1),
            format!("wait for batch {}", first + 1),
            format!("launch update at {learning_rate}"),
            format!("wait for update at {learning_rate}"),
            format!("read update at {learning_rate}"),
        ]
    };
    assert_eq!(ran.calls, [step(0, "1"), step(2, "0.5")].concat());
    assert_eq!(ran.rows, [[0, 1], [2, 3]]);
    let totals = ran.progress.totals;
    assert_eq!((totals.samples, totals.tokens, totals.flos), (4, 40, 400.0));
}

#[test]
fn a_skipped_update_does_not_advance_the_learning_rate() {
    let train = "max_steps: 4, logging_steps: 1, gradient_accumulation_steps: 1";
    let results =
        vec![(2.0, Some((8.0, true))), (f32::NAN, Some((4.0, false))), (1.0, Some((4.0, true)))];
    let ran = Run { train, batches_per_step: 2, results, ..Run::default() };
    let ran = Run { steps_in_flight_max: 2, ..ran }.run();
    ran.result.unwrap();
    let updates = ran.calls.iter().filter_map(|call| call.strip_prefix("launch update at "));
    assert_eq!(updates.collect::<Vec<_>>(), ["1", "0.75", "0.75", "0.5"]);
    assert_eq!(ran.progress.totals.skipped_steps, 1);
    // The window of the skipped step is empty, so its loss counts as 0.
    assert_eq!(ran.progress.totals.loss, 2.0 + 0.0 + 1.0 + 2.0);
}

#[test]
fn no_step_is_in_flight_during_a_pause() {
    let ran = Run { steps_in_flight_max: 2, pause_interval: 2, ..Run::default() }.run();
    ran.result.unwrap();
    let pause = ran.calls.iter().position(|call| call == "pause after 2").unwrap();
    let before = &ran.calls[..pause];
    assert_eq!(before.iter().filter(|call| call.starts_with("launch")).count(), 2);
    assert_eq!(before.iter().filter(|call| call.starts_with("read")).count(), 2);
}

#[test]
fn a_stop_completes_the_step_that_has_begun() {
    let train = "max_steps: 3, logging_steps: 1, gradient_accumulation_steps: 2";
    for (reason, last) in [
        (StopReason::Interrupted, "save after 2"),
        (StopReason::Cancelled, "read update at 0.6666667"),
    ] {
        let stop_at = Some((2, reason));
        let ran = Run { train, batches_per_step: 2, stop_at, ..Run::default() }.run();
        ran.result.unwrap();
        assert_eq!(ran.progress.steps, 2, "{reason:?}");
        assert_eq!(ran.progress.stopped, Some(reason));
        assert_eq!(ran.calls.last().unwrap(), last, "{reason:?}");
    }
}

#[test]
fn a_loss_that_is_not_finite_ends_the_run() {
    let results = vec![(2.0, None), (f32::INFINITY, None)];
    let ran = Run { results, ..Run::default() }.run();
    let error = ran.result.unwrap_err().to_string();
    assert!(error.starts_with("the loss of step 2 is inf"), "{error}");
    assert_eq!(ran.progress.steps, 1);
}

#[test]
fn losses_are_logged_as_means_of_their_window() {
    let train = "max_steps: 4, logging_steps: 2";
    let results = vec![(1.0, None), (3.0, None)];
    let ran = Run { train, results, ..Run::default() }.run();
    ran.result.unwrap();
    let history = ran.progress.log_history.iter();
    let entries = history.map(|entry| (entry["step"].as_u64(), entry["loss"].as_f64()));
    assert_eq!(entries.collect::<Vec<_>>(), [(Some(2), Some(2.0)), (Some(4), Some(2.0))]);
    let metrics = ran.progress.log_history.iter().map(|entry| entry["twice"].as_f64());
    assert!(metrics.eq([Some(4.0), Some(4.0)]));
    assert_eq!(ran.progress.log_history[0]["learning_rate"].as_f64(), Some(0.75));
    assert_eq!(ran.progress.log_history[0]["num_input_tokens_seen"].as_u64(), Some(24));
}
