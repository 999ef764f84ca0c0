//! The problems of a folder that a job will write.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

/// Files named in a message.
const SHOWN: usize = 3;

/// The files that the job would destroy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Checkpoints of an earlier run.
    Checkpoints { steps: Vec<u64>, job: Option<String> },
    /// Files that would be replaced.
    Files { names: Vec<String>, job: Option<String> },
    /// Files that the job itself reads: those of the key `field`.
    Input { field: String, name: String },
    /// Adapters that transformers would load in the place of the model.
    Adapter,
    /// The folder is in a checkpoint, which is removed as a whole.
    InCheckpoint { checkpoint: PathBuf },
}

impl Display for Problem {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        const OVERWRITE: &str = "or set train.overwrite_output_dir: true";
        match self {
            Problem::Checkpoints { steps, job } => {
                let names = steps.iter().map(|step| format!("checkpoint-{step}")).collect();
                let of =
                    job.as_ref().map_or("an earlier run".to_owned(), |job| format!("job {job}"));
                write!(
                    formatter,
                    "has {} of {of}; continue from the newest with \
                     train.resume_from_checkpoint: true, name another folder, {OVERWRITE} to \
                     replace them",
                    listed(names)
                )
            }
            Problem::Files { names, job } => {
                let of = job.as_ref().map_or(", which this job did not write".to_owned(), |job| {
                    format!(" of job {job}")
                });
                write!(
                    formatter,
                    "has {}{of}; name another folder, {OVERWRITE} to replace such files",
                    listed(names.clone())
                )
            }
            Problem::Input { field, name } => write!(
                formatter,
                "has {name}, which the job reads as {field} and would replace; name another folder"
            ),
            Problem::Adapter => formatter.write_str(
                "has adapters that traind did not write and that transformers would load in the \
                 place of the model; remove them or name another folder",
            ),
            Problem::InCheckpoint { checkpoint } => write!(
                formatter,
                "is in the checkpoint {}, which save_total_limit may remove; name another folder",
                checkpoint.display()
            ),
        }
    }
}

fn listed(names: Vec<String>) -> String {
    match names.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        Some(more) => format!("{} and {more} more", names[..SHOWN].join(", ")),
        None => names.join(", "),
    }
}
