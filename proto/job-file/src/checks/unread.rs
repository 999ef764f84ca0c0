//! Keys that are not read: those of other tasks and of other losses.

use std::fmt::Display;

use crate::field_type::FieldType;
use crate::problems::{Problems, join};
use crate::schema::JobFile;
use crate::schema::model::TaskName;
use crate::section::given;

/// Refuses the keys of the section that is called as the task `owner`, unless the job is of that task.
pub(super) fn check_section<T: FieldType + serde::Serialize>(
    owner: TaskName,
    section: &T,
    job: &JobFile,
    problems: &mut Problems,
) {
    let task = job.model.task;
    if task == owner {
        return;
    }
    let path = owner.as_str().replace('-', "_");
    for key in given(section, &path, problems) {
        let description = format!("applies to {owner}, not to {task}");
        problems.violation(&join(&path, &key), description);
    }
}

/// Refuses those of `keys` in the section `path` of which `read` says that `loss` does not read them.
pub(super) fn check_loss(
    path: &str,
    keys: &[String],
    read: &[(&str, bool)],
    loss: impl Display,
    problems: &mut Problems,
) {
    for key in keys.iter().filter(|key| read.contains(&(key.as_str(), false))) {
        problems.violation(&join(path, key), format!("does not apply to the loss `{loss}`"));
    }
}
