//! The observer of a run's session: events and status of the job, and the files of its programs.

use std::error::Error as StdError;
use std::path::Path;
use std::sync::Arc;

use traind_loader::BatchAxis;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{self, CompileSource, Compiled, Phase};
use traind_xla::runtime::ExecutableSource;

use super::program_files::ProgramFiles;
use crate::reporting::Reporter;
use crate::session::{
    CompiledReport, CoreEnded, LaunchReport, MemoryUsage, Observer, PipelineTime, Work,
};

#[derive(Debug)]
struct RunObserver {
    reporter: Reporter,
    files: ProgramFiles,
}

/// Reports a session to `reporter`, and writes its programs to `run_dir`.
pub(super) fn observer(reporter: &Reporter, run_dir: &Path) -> Arc<dyn Observer> {
    Arc::new(RunObserver { reporter: reporter.clone(), files: ProgramFiles::new(run_dir) })
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
        let CompiledReport { shape, seconds, source, ahead, kernel_sites, .. } = *program;
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
        Ok(recorded.map_err(crate::error::RunError::from)?)
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
