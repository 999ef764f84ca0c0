//! Fields of uploads to the hub.

use crate::problems::{FIELD_UNUSED, Problems, join};
use crate::schema::JobFile;
use crate::schema::train::Train;
use crate::values::hub_name::is_hub_name;

/// Reports fields of uploads to the hub that do not fit the job.
pub(crate) fn check(job: &JobFile, problems: &mut Problems) {
    match job.train.push_to_hub {
        true => check_upload(job, problems),
        false => check_unused(&job.train, problems),
    }
}

fn check_upload(job: &JobFile, problems: &mut Problems) {
    let train = &job.train;
    if !train.do_train {
        problems.violation("train.push_to_hub", "is true, but train.do_train is false");
    }
    let id = job.hub_repository().unwrap_or_default();
    if !is_hub_name(&id, 2) {
        let description = match &train.hub_model_id {
            Some(id) => format!("`{id}` is not a repository name such as `org/name`"),
            None => {
                "is required, since output_dir has no name that a repository can have".to_owned()
            }
        };
        problems.violation("train.hub_model_id", description);
    }
    if train.hub_revision.as_ref().is_some_and(|branch| !is_hub_name(branch, usize::MAX)) {
        problems.violation("train.hub_revision", "is not a branch name");
    }
}

fn check_unused(train: &Train, problems: &mut Problems) {
    let given = [
        ("hub_model_id", train.hub_model_id.is_some()),
        ("hub_private_repo", train.hub_private_repo.is_some()),
        ("hub_revision", train.hub_revision.is_some()),
        ("hub_always_push", train.hub_always_push),
    ];
    for (name, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
        let description = "has no effect without train.push_to_hub";
        problems.warning(FIELD_UNUSED, &join("train", name), description);
    }
}
