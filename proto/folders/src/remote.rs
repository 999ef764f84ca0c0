//! Locations in buckets that jobs write, which have the same record as folders on the disk.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use traind_job_file::DataFiles;

use crate::NOTES;
use crate::checkpoints::step_of_checkpoint;
use crate::conflict::Conflict;
use crate::contents::Contents;
use crate::intent::{Intent, Origin, Writes};
use crate::names::is_written;
use crate::record::{Claim, RECORD, Record};

const MANIFEST: &str = "manifest.json";

/// The object of a location that holds its record.
pub fn record_name() -> String {
    format!("{NOTES}/{RECORD}")
}

/// A location in a bucket before a job writes there.
#[derive(Clone, Debug)]
pub struct RemoteFolder {
    /// `s3://BUCKET/PREFIX`, without a slash at the end.
    pub url: String,
    /// The objects by their names below the location.
    pub names: Vec<String>,
    pub record: Option<Record>,
}

/// The part that a job has in a location.
#[derive(Clone, Copy, Debug)]
pub struct Use<'a> {
    /// The key that names the location.
    pub field: &'static str,
    /// Whether the output is written there.
    pub has_output: bool,
    /// Whether checkpoints are written there.
    pub has_checkpoints: bool,
    /// The id of a job that has run before.
    pub own: Option<&'a str>,
}

impl RemoteFolder {
    /// Returns the first files that a job would destroy without being its own.
    pub fn conflict(&self, intent: &Intent, used: Use<'_>) -> Option<Conflict> {
        let is_trained = used.has_output && intent.writes != Writes::Results;
        let contents = Contents {
            intent,
            names: self.top().collect(),
            record: self.record.clone(),
            is_own: used.own.is_some_and(|job| self.is_of(job)),
            continues: self.is_continued_by(intent),
        };
        let checkpoints = || {
            let job = self.record.as_ref().map(|record| record.job.clone());
            contents.checkpoints(self.checkpoints().into_iter().collect(), job)
        };
        let problem = (used.has_checkpoints || is_trained).then(checkpoints).flatten();
        let files = || used.has_output.then(|| contents.files(false)).flatten();
        let problem = problem.or_else(files)?;
        Some(Conflict { field: used.field, folder: PathBuf::from(&self.url), problem })
    }

    /// The record of a job that begins to write here.
    pub fn begin(&self, claim: Claim<'_>) -> Record {
        let written = self.top().filter(|name| is_written(name)).collect();
        Record::of_claim(claim, self.record.clone(), written, self.checkpoints())
    }

    /// Checkpoints that traind wrote for earlier jobs, which `train.overwrite_output_dir` gives up.
    pub fn overwritten(&self, intent: &Intent, used: Use<'_>) -> BTreeSet<u64> {
        let is_own = used.own.is_some_and(|job| self.is_of(job));
        if !intent.overwrites || !used.has_checkpoints || is_own || self.is_continued_by(intent) {
            return BTreeSet::new();
        }
        let is_known = |step: &u64| self.record.as_ref().is_none_or(|it| it.has_checkpoint(*step));
        self.checkpoints().into_iter().filter(is_known).collect()
    }

    /// Whether a job that has run before wrote here.
    fn is_of(&self, job: &str) -> bool {
        self.record.as_ref().is_none_or(|record| record.job == job)
    }

    /// Whether the job continues a run whose checkpoints are here.
    fn is_continued_by(&self, intent: &Intent) -> bool {
        match &intent.origin {
            Origin::Beginning => false,
            Origin::OwnFolder => true,
            Origin::Folder(from) if DataFiles::is_url(from) => {
                let parent = step_of_checkpoint(from).and_then(|_| from.parent());
                [Some(from.as_path()), parent].into_iter().flatten().any(|from| self.is_at(from))
            }
            Origin::Folder(_) => false,
        }
    }

    fn is_at(&self, url: &Path) -> bool {
        url.to_string_lossy().trim_end_matches('/') == self.url
    }

    fn top(&self) -> impl Iterator<Item = String> {
        self.names.iter().filter(|name| !name.contains('/')).cloned()
    }

    /// The steps of complete checkpoints.
    fn checkpoints(&self) -> BTreeSet<u64> {
        let step = |name: &String| {
            let (folder, file) = name.split_once('/')?;
            step_of_checkpoint(Path::new(folder)).filter(|_| file == MANIFEST)
        };
        self.names.iter().filter_map(step).collect()
    }
}

#[cfg(test)]
mod tests {
    use traind_job_file::JobFile;

    use super::*;

    const BOTH: Use<'_> =
        Use { field: "output_dir", has_output: true, has_checkpoints: true, own: None };

    fn folder(names: &[&str], record: Option<Record>) -> RemoteFolder {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        RemoteFolder { url: "s3://data/out".to_owned(), names, record }
    }

    fn intent(settings: &str) -> Intent {
        let text = format!(
            "name: a\noutput_dir: s3://data/out\ndata: {{train: t.csv}}\ntrain: {{{settings}}}\n\
             model: {{name_or_path: m, task: sequence-classification, num_labels: 2}}\n"
        );
        Intent::of(&JobFile::parse(&text, Path::new("/")).unwrap().job)
    }

    fn record(job: &str, names: &[&str]) -> Record {
        let mut record = folder(&[], None).begin(Claim { job, name: "n" });
        record.insert_files(names.iter().map(|name| (*name).to_owned()));
        record
    }

    #[test]
    fn a_job_takes_an_empty_location_and_its_own() {
        let fresh = intent("");
        assert_eq!(folder(&["notes.txt", "data/train.csv"], None).conflict(&fresh, BOTH), None);
        let names = ["config.json", "checkpoint-5/manifest.json", "checkpoint-5/model.safetensors"];
        let used = folder(&names, Some(record("j", &["config.json"])));
        assert_eq!(used.conflict(&fresh, Use { own: Some("j"), ..BOTH }), None);
        assert_eq!(used.conflict(&intent("resume_from_checkpoint: auto"), BOTH), None);
    }

    #[test]
    fn the_files_of_others_are_kept() {
        let names = |names: &[&str], record, used| {
            folder(names, record).conflict(&intent(""), used).map(|it| it.to_string())
        };
        let model = names(&["model.safetensors"], None, BOTH).unwrap();
        assert!(model.starts_with("output_dir s3://data/out has model.safetensors"), "{model}");
        let manifest = ["checkpoint-5/manifest.json"];
        let found = names(&manifest, Some(record("j", &[])), BOTH).unwrap();
        assert!(found.contains("has checkpoint-5 of job j; continue"), "{found}");
        let other = Use { own: Some("k"), ..BOTH };
        assert!(names(&manifest, Some(record("j", &[])), other).is_some(), "of another job");
        assert_eq!(names(&["checkpoint-5/notes.txt"], None, BOTH), None, "no checkpoint");
    }

    #[test]
    fn overwriting_gives_up_the_checkpoints_of_traind_alone() {
        let mut known = record("j", &[]);
        known.insert_checkpoint(5);
        let names = ["checkpoint-5/manifest.json", "checkpoint-9/manifest.json"];
        let used = folder(&names, Some(known));
        let overwrites = intent("overwrite_output_dir: true");
        assert_eq!(used.conflict(&overwrites, BOTH), None);
        assert_eq!(used.overwritten(&overwrites, BOTH), BTreeSet::from([5]));
        assert!(used.overwritten(&overwrites, Use { own: Some("j"), ..BOTH }).is_empty());
        assert!(used.overwritten(&intent(""), BOTH).is_empty());
    }
}
