//! The events of a session: what is compiled and launched, and how much memory that takes.

use std::error::Error as StdError;
use std::fmt;
use std::ops::{AddAssign, Mul};
use std::sync::Arc;
use std::time::{Duration, Instant};

use traind_xla::Shape;
use traind_xla::analysis::{Collective, SentBytes};
use traind_xla::mesh::Mesh;
use traind_xla::runtime::{ExecutableSource, ProgramArgument};
use traind_xla::stablehlo::KernelSite;
use traind_xla::verify::neuron::Finding;

use crate::step::ProgramShape;

/// The events of a session. Each method has a default that ignores its event. Several threads call
/// them.
pub trait Observer: fmt::Debug + Send + Sync {
    /// A launch calls `wait` to wait for its program. Returns after that.
    fn compile_wait(&self, wait: &mut dyn FnMut()) {
        wait();
    }

    /// The session has compiled `compiled` of the `total` programs that are needed so far.
    fn programs_counted(&self, _compiled: usize, _total: usize) {}

    /// A program is compiled. An error ends the session's next launch.
    fn program_compiled(
        &self,
        _program: &CompiledReport<'_>,
    ) -> Result<(), Box<dyn StdError + Send + Sync>> {
        Ok(())
    }

    /// The memory of each core, by the programs compiled so far.
    fn memory_changed(&self, _memory: MemoryUsage) {}

    /// Programs are launched; `work` is what each core does.
    fn launched(&self, _work: Work) {}

    /// A program is launched. The session calls what is returned, if anything, for each core that has run it.
    fn program_launched(&self, _launch: &LaunchReport<'_>) -> Option<CoreEnded> {
        None
    }

    /// Programs of an evaluation or of generation have ended. The end of training steps is known to
    /// the one that waits for them.
    fn finished(&self) {}

    /// A batch has passed through the stages of this host.
    fn batch_passed(&self, _time: PipelineTime) {}
}

/// Called when a core has run a program, on any thread, with the number of its device among those of its client. It
/// should be short, and must not panic.
pub type CoreEnded = Arc<dyn Fn(usize) + Send + Sync>;

/// A program that was launched.
#[derive(Clone, Copy, Debug)]
pub struct LaunchReport<'a> {
    /// The key of the program's shape.
    pub program: &'a str,
    /// The earliest time at which a core may have begun it.
    pub start: Instant,
}

/// Ignores all events.
impl Observer for () {}

/// A program that was compiled.
#[derive(Clone, Copy, Debug)]
pub struct CompiledReport<'a> {
    /// The program and its sizes.
    pub shape: ProgramShape,
    /// The program as it was recorded.
    pub description: &'a ProgramDescription,
    /// Time that recording, lowering and compiling took.
    pub seconds: f64,
    /// Whether it was compiled, or where it was found.
    pub source: ExecutableSource,
    /// Whether no step after the first waited for it.
    pub ahead: bool,
    /// The lowered program.
    pub text: &'a str,
    /// Its calls of kernels.
    pub kernel_sites: &'a [KernelSite],
    /// Operations that Neuron's compiler computes in another type, with the same results.
    pub warnings: &'a [Finding],
    /// FLOPs of one run on each core; 0 where the plugin reports none.
    pub flops: f64,
    /// `None` where the plugin reports none.
    pub memory: Option<ProgramMemory>,
}

/// A program as it was recorded.
#[derive(Clone, Debug)]
pub struct ProgramDescription {
    /// The key of the program's shape.
    pub name: String,
    /// The cores that run it.
    pub mesh: Mesh,
    /// Its arguments, in their order.
    pub arguments: Vec<ProgramArgument>,
    /// The shapes of its results.
    pub results: Vec<Shape>,
    /// The exchange between cores, in the program's order.
    pub collectives: Vec<Collective>,
    /// The bytes of temporary values that the graph needs.
    pub planned_temporary_bytes: u64,
}

/// The memory of a compiled program on each core, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramMemory {
    /// Variables and inputs.
    pub argument_bytes: u64,
    /// Variables and fetched values.
    pub result_bytes: u64,
    /// Results that replace arguments.
    pub alias_bytes: u64,
    /// Values that the program needs while it runs.
    pub temporary_bytes: u64,
    /// The program itself.
    pub code_bytes: u64,
}

/// The memory of a core that a session uses, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// The parameters.
    pub parameters_bytes: u64,
    /// All other variables, the optimizer's slots above all.
    pub optimizer_bytes: u64,
    /// The temporary values of the largest program.
    pub temporary_bytes: u64,
    /// All programs.
    pub code_bytes: u64,
}

/// The work of one run of a program on one core, or such work per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// FLOPs, as counted by the compiler in the executable; 0 where the plugin reports none.
    pub executed: f64,
    /// The minimum of FLOPs for the model's dots, without recomputation.
    pub model: f64,
    /// Bytes that are sent to other cores.
    pub sent: SentBytes,
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        self.executed += other.executed;
        self.model += other.model;
        self.sent += other.sent;
    }
}

impl Mul<f64> for Work {
    type Output = Work;

    fn mul(self, factor: f64) -> Work {
        Work {
            executed: self.executed * factor,
            model: self.model * factor,
            sent: self.sent * factor,
        }
    }
}

/// The times of a batch that passed through a pipeline.
#[derive(Clone, Debug)]
pub struct PipelineTime {
    /// The time from its start to the end of its last program on this host.
    pub span: Duration,
    /// The time that each stage of this host spent in its programs.
    pub busy: Vec<Duration>,
}
