//! The sets of a split: their files, the parts of them that are read, and how their rows are mixed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use traind_hub::DataSetRequest;
use traind_job_file::{DataFiles, DataSet, DataSetUrl, JobFile};
use traind_loader::{Files, MixedSet, Mixing, Mixture, SplitPart, SplitRange};

use super::{columns, field, path_text};
use crate::error::{RunError, RunResult};
use crate::recipe::rows;
use crate::reporting::Downloads;

/// The split that files without splits have in `datasets`.
const ONLY_SPLIT: &str = "train";

/// Finds the files of a split's sets.
pub(super) struct Sets<'a> {
    pub(super) job: &'a JobFile,
    /// None where all files are on this host.
    pub(super) downloads: Option<&'a Downloads>,
    /// `train`, `validation` or `test`.
    pub(super) split: &'static str,
    /// Settings of the files, without patterns.
    pub(super) files: Files,
}

impl Sets<'_> {
    /// The sets of the files in `given`.
    pub(super) fn mixture(&self, given: &DataFiles) -> RunResult<Mixture> {
        let mixing = rows::mixing(self.job.data.mixing);
        let sets = match (given.sets.is_empty(), mixing) {
            (false, _) => given.sets().map(|(set, own)| self.set(own, Some(set))).collect(),
            (true, Mixing::Concatenate)
                if self.job.data.max_samples.is_none() && !self.job.data.mixing.is_of_batches() =>
            {
                vec![self.set(&given.patterns, None)]
            }
            (true, _) => {
                let patterns = given.patterns.iter();
                patterns.map(|own| self.set(std::slice::from_ref(own), None)).collect()
            }
        };
        let sets = sets.into_iter().collect::<RunResult<Vec<MixedSet>>>()?;
        Ok(Mixture { sets, mixing, seed: self.job.data_seed() })
    }

    fn set(&self, patterns: &[PathBuf], set: Option<&DataSet>) -> RunResult<MixedSet> {
        let given = set.and_then(|set| set.split.as_deref());
        let parts = match given {
            Some(expression) => SplitPart::parse(expression)?,
            None => {
                let split = self.split.to_owned();
                vec![SplitPart { split, range: SplitRange::default() }]
            }
        };
        if given.is_some() {
            parts.iter().try_for_each(|part| self.check_split(&part.split, patterns))?;
        }
        let parts = parts.into_iter().map(|SplitPart { split, range }| {
            let (patterns, names) = self.patterns(&split, patterns, set)?;
            let mut files = Files { patterns, split, ..self.files.clone() };
            files.fetch.names = names;
            if let Some(set) = set {
                let own = columns(&set.columns);
                files.columns.rename.splice(0..0, own.rename);
                files.columns.drop.extend(own.drop);
                files.columns.lists.extend(own.lists);
                files.columns.cast.extend(own.cast);
            }
            Ok((files, range))
        });
        let limits = [set.and_then(|set| set.limit), self.job.data.max_samples];
        Ok(MixedSet {
            parts: parts.collect::<RunResult<_>>()?,
            limit: limits.into_iter().flatten().min(),
            weight: set.and_then(|set| set.weight),
        })
    }

    /// Refuses a split that plain files do not have.
    fn check_split(&self, split: &str, patterns: &[PathBuf]) -> RunResult<()> {
        let is_plain = |path: &&PathBuf| !DataFiles::is_data_set(path) && !path.is_dir();
        match patterns.iter().find(is_plain) {
            Some(path) if split != ONLY_SPLIT => Err(RunError::Field {
                name: field(self.split),
                value: split.to_owned(),
                problem: format!("{} is a file, whose only split is {ONLY_SPLIT}", path.display()),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the loader's patterns for files, and the hub's names of fetched files.
    fn patterns(
        &self,
        split: &str,
        given: &[PathBuf],
        set: Option<&DataSet>,
    ) -> RunResult<(Vec<String>, BTreeMap<PathBuf, PathBuf>)> {
        let (mut patterns, mut names) = (Vec::new(), BTreeMap::new());
        for pattern in given {
            let url = DataSetUrl::parse(&path_text(pattern));
            let Some((url, downloads)) = url.zip(self.downloads) else {
                patterns.push(path_text(pattern));
                continue;
            };
            let request = self.request(split, url, set);
            for file in downloads.fetch_data(field(self.split), request)? {
                patterns.push(path_text(&file.local));
                names.insert(file.local, file.name);
            }
        }
        Ok((patterns, names))
    }

    fn request(&self, split: &str, url: DataSetUrl, set: Option<&DataSet>) -> DataSetRequest {
        let data = &self.job.data;
        let own = |value: fn(&DataSet) -> &Option<String>| set.and_then(|set| value(set).clone());
        let revision = own(|set| &set.revision).or_else(|| data.revision.clone());
        let config = own(|set| &set.dataset_config_name);
        DataSetRequest {
            id: url.id,
            revision: url.revision.or(revision),
            split: split.to_owned(),
            config: config.or_else(|| data.dataset_config_name.clone()),
            path: url.path,
        }
    }
}

/// The first of the files, for readers of one set.
pub(super) fn first_files(mixture: &Mixture) -> Option<&Files> {
    mixture.sets.first()?.parts.first().map(|(files, _)| files)
}
