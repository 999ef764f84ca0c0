//! Values of the job file that the runner does not support yet. They are refused rather than
//! ignored. Remove the line of a value once the runner supports it.

use std::path::PathBuf;

use crate::problems::Problems;
use crate::schema::JobFile;
use crate::schema::data_files::DataFiles;

/// Refuses what is not supported yet.
pub(crate) fn check(job: &JobFile, problems: &mut Problems) {
    for (field, _) in refusals(job).into_iter().filter(|(_, asked)| *asked) {
        problems.violation(field, "is not supported yet with this value");
    }
}

/// Each field with whether the job asks for something that cannot be done.
fn refusals(job: &JobFile) -> Vec<(&'static str, bool)> {
    let data = [job.data.train.as_ref(), job.data.validation.as_ref(), job.data.test.as_ref()];
    let other_url = |path: &PathBuf| {
        DataFiles::is_url(path) && !DataFiles::is_object(path) && !DataFiles::is_data_set(path)
    };
    let urls = data.map(|files| files.is_some_and(|files| files.patterns.iter().any(other_url)));
    vec![("data.train", urls[0]), ("data.validation", urls[1]), ("data.test", urls[2])]
}
