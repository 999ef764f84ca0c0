//! Whether a job would destroy files that are not its own.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::checkpoints::{
    checkpoint_steps, is_checkpoint_of_traind, job_of_checkpoint, step_of_checkpoint,
};
use crate::contents::Contents;
use crate::identity::{Identity, Relation};
use crate::intent::{Intent, Writes};
use crate::names::is_adapter;
use crate::problem::Problem;
use crate::record::{Record, has_checkpoint_of};

/// The key of adapters that a job starts from; those in the folder of its base model are not read.
const ADAPTER: &str = "peft.adapter_name_or_path";

/// A folder of a job in which the job would destroy files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The key that names the folder.
    pub field: &'static str,
    pub folder: PathBuf,
    pub problem: Problem,
}

impl Display for Conflict {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} {}", self.field, self.folder.display(), self.problem)
    }
}

/// Returns the first file or checkpoint that a job would destroy without being its own. `own` is the id of a job that
/// has run before, and so may have written some of the files.
pub fn conflict(intent: &Intent, own: Option<&str>) -> io::Result<Option<Conflict>> {
    let output = intent.output.as_ref();
    let output = output.map(|folder| Survey::of("output_dir", folder, intent, own)).transpose()?;
    let (field, checkpoints) = (intent.checkpoints_field, intent.checkpoints.as_ref());
    let checkpoints =
        checkpoints.map(|folder| Survey::of(field, folder, intent, own)).transpose()?;
    let (output, checkpoints) = (output.as_ref(), checkpoints.as_ref());
    let trained = output.filter(|_| intent.writes != Writes::Results);
    // Conflicts that `overwrite_output_dir` does not resolve come first.
    let found = [
        output.and_then(Survey::within),
        checkpoints.and_then(Survey::within),
        output.map(Survey::inputs).transpose()?.flatten(),
        checkpoints.map(Survey::checkpoint_inputs).transpose()?.flatten(),
        checkpoints.map(Survey::checkpoints).transpose()?.flatten(),
        trained.map(Survey::checkpoints).transpose()?.flatten(),
        output.and_then(Survey::files),
    ];
    Ok(found.into_iter().flatten().next())
}

/// Returns true if a file at the top of a folder is absent, or if traind wrote it for the folder's job.
pub fn may_replace(folder: &Path, name: &str) -> io::Result<bool> {
    if fs::symlink_metadata(folder.join(name)).is_err() {
        return Ok(true);
    }
    Ok(Record::read(folder)?.is_none_or(|record| record.has_file(name, true)))
}

/// A folder that a job will write, which may not exist yet.
struct Survey<'a> {
    field: &'static str,
    /// The path as the job file spells it.
    spelled: &'a Path,
    /// The path on the disk, since `missing/../out` can only be looked up once the job has created `missing`.
    folder: PathBuf,
    identity: Identity,
    contents: Contents<'a>,
}

impl<'a> Survey<'a> {
    fn of(
        field: &'static str,
        spelled: &'a Path,
        intent: &'a Intent,
        own: Option<&str>,
    ) -> io::Result<Survey<'a>> {
        let identity = Identity::of(spelled)?;
        let folder = identity.path().to_owned();
        let record = Record::read(&folder)
            .map_err(|error| io::Error::new(error.kind(), format!("read the record: {error}")))?;
        let is_own = match (own, &record) {
            (Some(job), Some(record)) => record.job == job,
            (Some(job), None) => has_checkpoint_of(&folder, job)?,
            (None, _) => false,
        };
        let continues = intent.continues(&identity);
        let names = names(&folder)?;
        let contents = Contents { intent, names, record, is_own, continues };
        Ok(Survey { field, spelled, folder, identity, contents })
    }

    fn conflict(&self, problem: Problem) -> Conflict {
        Conflict { field: self.field, folder: self.spelled.to_owned(), problem }
    }

    /// A folder in a checkpoint is lost with it.
    fn within(&self) -> Option<Conflict> {
        let mut parents = self.identity.path().ancestors();
        let checkpoint = parents
            .find(|path| step_of_checkpoint(path).is_some() && is_checkpoint_of_traind(path));
        let problem = |path: &Path| Problem::InCheckpoint { checkpoint: path.to_owned() };
        checkpoint.map(|path| self.conflict(problem(path)))
    }

    /// Files that the job reads and would replace, no matter what wrote them.
    fn inputs(&self) -> io::Result<Option<Conflict>> {
        let Contents { intent, names, .. } = &self.contents;
        let writes = intent.writes;
        let input = |field: &str, name: &str| {
            self.conflict(Problem::Input { field: field.to_owned(), name: name.to_owned() })
        };
        for (field, path) in &intent.weights {
            if !Identity::of(path)?.is(&self.identity) {
                continue;
            }
            let is_replaced = |name: &&String| match writes {
                Writes::Results => false,
                Writes::Adapter => field == ADAPTER && is_adapter(name),
                Writes::Model => writes.concerns(name),
            };
            if let Some(name) = names.iter().find(is_replaced) {
                return Ok(Some(input(field, name)));
            }
        }
        for (field, path) in &intent.data {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_here = || {
                let parent = path.parent().map(Identity::of).transpose();
                parent.map(|parent| parent.is_some_and(|parent| parent.is(&self.identity)))
            };
            if writes.concerns(&name) && is_here()? {
                return Ok(Some(input(field, &name)));
            }
        }
        Ok(None)
    }

    /// Checkpoints of this folder whose weights the job reads, and which it would replace or remove.
    fn checkpoint_inputs(&self) -> io::Result<Option<Conflict>> {
        if self.contents.continues || self.contents.is_own {
            return Ok(None);
        }
        for (field, path) in &self.contents.intent.weights {
            let input = Identity::of(path)?;
            let is_inside = input.relation(&self.identity) == Relation::Inside;
            let below = input.path().strip_prefix(self.identity.path()).unwrap_or(Path::new(""));
            let first = below.iter().next().map(Path::new).filter(|_| is_inside);
            if let Some(name) = first.filter(|name| step_of_checkpoint(name).is_some()) {
                let (field, name) = (field.clone(), name.display().to_string());
                return Ok(Some(self.conflict(Problem::Input { field, name })));
            }
        }
        Ok(None)
    }

    /// Checkpoints of an earlier run.
    fn checkpoints(&self) -> io::Result<Option<Conflict>> {
        let found = checkpoint_steps(&self.folder)?;
        let Some((_, newest)) = found.last() else { return Ok(None) };
        let (job, steps) =
            (job_of_checkpoint(newest), found.iter().map(|(step, _)| *step).collect());
        Ok(self.contents.checkpoints(steps, job).map(|problem| self.conflict(problem)))
    }

    /// Files of others that the job would replace.
    fn files(&self) -> Option<Conflict> {
        // Adapters may be added to the folder of their base.
        let adds_to_base = self.contents.intent.writes == Writes::Adapter
            && self.contents.intent.reads(&self.identity);
        self.contents.files(adds_to_base).map(|problem| self.conflict(problem))
    }
}

/// The names of everything in a folder, which may not exist.
fn names(folder: &Path) -> io::Result<BTreeSet<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries?,
    };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}
