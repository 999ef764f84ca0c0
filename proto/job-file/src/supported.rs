//! Values of the job file that the runner does not support yet. They are refused rather than
//! ignored. Remove the line of a value once the runner supports it.

use std::path::Path;

use crate::problems::Problems;
use crate::schema::JobFile;
use crate::schema::data_files::DataFiles;

/// Refuses what is not supported yet.
pub(crate) fn check(job: &JobFile, problems: &mut Problems) {
    let data = &job.data;
    let splits = [("train", &data.train), ("validation", &data.validation), ("test", &data.test)];
    for (split, files) in splits {
        let mut patterns = files.iter().flat_map(|files| &files.patterns);
        if let Some(url) = patterns.find(|pattern| is_other_url(pattern)) {
            let remedy = "is not fetched; copy it to this host and name the file, or name objects of a bucket \
                          (`s3://BUCKET/KEY`) or a data set of the hub (`ORG/NAME`)";
            problems.violation(&format!("data.{split}"), format!("{} {remedy}", url.display()));
        }
    }
}

/// Returns whether a pattern is a URL of a scheme that is not read.
fn is_other_url(pattern: &Path) -> bool {
    DataFiles::is_url(pattern) && !DataFiles::is_object(pattern) && !DataFiles::is_data_set(pattern)
}
