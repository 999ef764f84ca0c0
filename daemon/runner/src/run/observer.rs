//! The observer of a run's session: events and status of the job, and the files of its programs.

use std::error::Error as StdError;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use traind_loader::BatchAxis;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{self, CompileSource, Compiled, Phase};
use traind_xla::runtime::ExecutableSource;
use traind_xla::verify::neuron::{Finding, add_distinct};

use super::program_files::ProgramFiles;
use crate::error::{RunError, RunResult};
use crate::reporting::{Journal, Reporter};
use crate::session::{
    CompiledReport, CoreEnded, LaunchReport, MemoryUsage, Observer, PipelineTime, Work,
};

#[derive(Debug)]
struct RunObserver {
    reporter: Reporter,
    files: ProgramFiles,
    warnings: Warnings,
}

/// The warnings of programs that are in the journal, which has each problem once.
#[derive(Debug, Default)]
struct Warnings(Mutex<Vec<Finding>>);

/// Reports a session to `reporter`, and writes its programs to `run_dir`.
pub(super) fn observer(reporter: &Reporter, run_dir: &Path) -> Arc<dyn Observer> {
    let (reporter, files) = (reporter.clone(), ProgramFiles::new(run_dir));
    Arc::new(RunObserver { reporter, files, warnings: Warnings::default() })
}

impl Warnings {
    /// Records the findings of a program that no other program had.
    fn record(&self, found: &[Finding], journal: &Journal) -> RunResult<()> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.len();
        add_distinct(&mut known, found.iter().cloned());
        for finding in &known[before..] {
            journal.warn(finding.code, finding.message())?;
        }
        Ok(())
    }
}

impl Observer for RunObserver {
    fn compile_wait(&self, wait: &mut dyn FnMut()) {
        let phase = self.reporter.activity.enter(Phase::Compile);
        wait();
        self.reporter.activity.enter(phase);
    }

    fn programs_counted(&self, compiled: usize, total: usize) {
        self.reporter.activity.set_programs(compiled, total);
    }

    fn program_compiled(
        &self,
        program: &CompiledReport<'_>,
    ) -> Result<(), Box<dyn StdError + Send + Sync>> {
        self.files.write(program);
        let CompiledReport { shape, seconds, source, ahead, kernel_sites, warnings, .. } = *program;
        self.warnings.record(warnings, &self.reporter.journal)?;
        self.reporter.activity.profiler.program_compiled(&shape.key(), kernel_sites);
        let event = Compiled {
            program: shape.program.name().to_owned(),
            bucket_length: shape.sizes.get(BatchAxis::Positions) as u32,
            batch: shape.sizes.rows() as u32,
            seconds,
            source: compile_source(source).into(),
            ahead,
        };
        let recorded = self.reporter.journal.record(Kind::Compiled(event));
        Ok(recorded.map_err(RunError::from)?)
    }

    fn memory_changed(&self, memory: MemoryUsage) {
        self.reporter.activity.set_memory(v1::MemoryUsage {
            parameters_bytes: memory.parameters_bytes,
            optimizer_bytes: memory.optimizer_bytes,
            temporary_bytes: memory.temporary_bytes,
            code_bytes: memory.code_bytes,
        });
    }

    fn program_launched(&self, launch: &LaunchReport<'_>) -> Option<CoreEnded> {
        self.reporter.activity.profiler.program_launched(launch)
    }

    fn launched(&self, work: Work) {
        self.reporter.activity.program_launched(work);
    }

    fn finished(&self) {
        self.reporter.activity.program_finished();
    }

    fn batch_passed(&self, time: PipelineTime) {
        self.reporter.activity.batch_passed(time);
    }
}

fn compile_source(source: ExecutableSource) -> CompileSource {
    match source {
        ExecutableSource::Memory => CompileSource::Memory,
        ExecutableSource::Disk => CompileSource::Disk,
        ExecutableSource::Compiled => CompileSource::Compiled,
    }
}

#[cfg(test)]
mod tests {
    use traind_proto::event_log::EventLogReader;

    use super::*;

    #[test]
    fn warnings_of_programs_are_in_the_journal_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.log");
        let journal = Journal::open(&path).unwrap();
        let finding = |code, scope: &str| Finding {
            code,
            problem: "a dot of i32, whose numbers float32 holds".to_owned(),
            operation: "dot_general".to_owned(),
            scope: scope.to_owned(),
            recorded: "dot_general".to_owned(),
            is_backward: false,
        };
        let warnings = Warnings::default();
        let of_program = [finding("NCC_EVRF035", "layer0"), finding("NCC_EVRF035", "layer1")];
        for found in [&of_program[..], &of_program, &[finding("NCC_EVRF061", "head")]] {
            warnings.record(found, &journal).unwrap();
        }
        let events = EventLogReader::open(&path).unwrap().read_from(0).unwrap();
        let texts: Vec<(String, String)> = events
            .into_iter()
            .filter_map(|it| match it.event.kind {
                Some(Kind::Warning(warning)) => Some((warning.code, warning.message)),
                _ => None,
            })
            .collect();
        let text = |code: &str, scope: &str| {
            let problem = "a dot of i32, whose numbers float32 holds";
            (code.to_owned(), format!("{problem} (the matrix product in {scope}, dot_general)"))
        };
        assert_eq!(texts, [text("NCC_EVRF035", "layer 0"), text("NCC_EVRF061", "the head")]);
    }
}
