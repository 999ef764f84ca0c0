//! The contents of a folder that a job will write, and what of them the job would destroy.

use std::collections::BTreeSet;

use crate::intent::{Intent, Writes};
use crate::names::{is_adapter, is_copied};
use crate::problem::Problem;
use crate::record::Record;

/// Files at the top of a folder on the disk or in a bucket, beside the job that will write there.
pub(crate) struct Contents<'a> {
    pub intent: &'a Intent,
    pub names: BTreeSet<String>,
    pub record: Option<Record>,
    /// Whether an earlier attempt of the job wrote here.
    pub is_own: bool,
    /// Whether the job continues a run whose checkpoints are here.
    pub continues: bool,
}

impl Contents<'_> {
    /// The checkpoints of an earlier run, which are the given ones; `job` wrote the newest.
    pub(crate) fn checkpoints(&self, steps: Vec<u64>, job: Option<String>) -> Option<Problem> {
        let may = self.is_own || self.continues || self.intent.overwrites || steps.is_empty();
        (!may).then_some(Problem::Checkpoints { steps, job })
    }

    /// Files of others that the job would replace. With `adds_to_base`, the files of the base model are kept.
    pub(crate) fn files(&self, adds_to_base: bool) -> Option<Problem> {
        let writes = self.intent.writes;
        let is_kept = |name: &str| adds_to_base && is_copied(name);
        let concerns = |name: &&String| writes.concerns(name) && !is_kept(name);
        let mut foreign = self.names.iter().filter(concerns).filter(|name| !self.has_written(name));
        let of_record = |name: &str| self.record.as_ref().filter(|it| it.has_file(name, false));
        if self.intent.overwrites {
            let is_foreign = |name: &String| is_adapter(name) && of_record(name).is_none();
            return (writes == Writes::Model && foreign.any(is_foreign))
                .then_some(Problem::Adapter);
        }
        let names: Vec<String> = foreign.cloned().collect();
        // Results may be computed again.
        if writes == Writes::Results && names.iter().all(|name| of_record(name).is_some()) {
            return None;
        }
        let job = of_record(names.first()?).map(|record| record.job.clone());
        Some(Problem::Files { names, job })
    }

    /// Whether traind wrote a file, for this job or for one that it continues.
    fn has_written(&self, name: &str) -> bool {
        let may = self.is_own || self.continues;
        may && match &self.record {
            Some(record) => record.has_file(name, self.is_own),
            // An earlier version of traind kept no record.
            None => self.is_own,
        }
    }
}
