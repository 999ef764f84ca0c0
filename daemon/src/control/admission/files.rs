//! Whether a job may look up the paths that its file names, whether they exist, and whether its user has access.

use std::fs;
use std::mem;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use traind_folders::objection;
use traind_job_file::{DataFiles, JobFile, ResumeFrom};

use crate::access::account::{Account, user_name};
use crate::access::roots::Roots;
use crate::control::admission::globs;
use crate::control::error::FieldViolation;

/// How deep a model's folder has files that are read, such as `1_Pooling/config.json`.
const MODEL_DEPTH: u32 = 1;
/// The most entries that a search looks at. A folder of a model or of a checkpoint has few.
const ENTRIES_MAX: usize = 10_000;

const CHAT_TEMPLATE: &str = "data.chat_template";

/// Every path of the job file that is outside the allowed folders.
pub(super) fn outside(job: &JobFile, roots: &Roots) -> Vec<FieldViolation> {
    let mut outside = Vec::new();
    let mut note = |field: &str, objection: Option<String>| {
        let field = field.to_owned();
        outside.extend(objection.map(|description| FieldViolation { field, description }));
    };
    if roots.is_empty() {
        return outside;
    }
    for (field, folder) in job.weight_folders() {
        note(field, roots.objection(folder));
    }
    if let Some(file) = job.data.chat_template_file() {
        note(CHAT_TEMPLATE, roots.objection(file));
    }
    for (field, files) in splits(job) {
        for pattern in files.into_iter().flat_map(|files| &files.patterns) {
            note(
                field,
                match DataFiles::is_url(pattern) {
                    true => roots.objection_to_url(&pattern.to_string_lossy()),
                    false => objection_to_files(pattern, roots),
                },
            );
        }
    }
    for (field, folder) in job.folders_used() {
        note(
            field,
            match DataFiles::is_url(folder) {
                true => roots.objection_to_url(&folder.to_string_lossy()),
                false => roots.objection(folder),
            },
        );
    }
    outside
}

/// Explains why a pattern may not be looked up if folders are restricted; `None` if it may.
fn objection_to_files(pattern: &Path, roots: &Roots) -> Option<String> {
    let is_wild = |part: &Component<'_>| DataFiles::is_glob(Path::new(part.as_os_str()));
    let mut parts = pattern.components();
    let fixed: PathBuf = parts.by_ref().take_while(|part| !is_wild(part)).collect();
    if parts.any(|part| part == Component::ParentDir) {
        let pattern = pattern.display();
        return Some(format!("{pattern} has .. after a wildcard: resolve it first"));
    }
    roots.objection(&fixed)
}

fn splits(job: &JobFile) -> [(&'static str, Option<&DataFiles>); 3] {
    [
        ("data.train", job.data.train.as_ref()),
        ("data.validation", job.data.validation.as_ref()),
        ("data.test", job.data.test.as_ref()),
    ]
}

/// Every path of the job file that does not exist or is not accessible to the job's user.
pub(crate) fn missing_files(job: &JobFile, account: Option<Account>) -> Vec<FieldViolation> {
    let user = Reader { account };
    let mut missing = Vec::new();
    let mut note = |field: &str, description: String| {
        missing.push(FieldViolation { field: field.to_owned(), description });
    };
    for (field, folder) in job.weight_folders() {
        if let Err(Errno::ACCESS) = user.may(folder, Access::READ_OK | Access::EXEC_OK) {
            note(field, user.not_accessible("read the folder", folder));
        } else if !folder.is_dir() {
            note(field, format!("there is no folder {}", folder.display()));
        } else if let Some(special) = special_file(folder, MODEL_DEPTH) {
            note(field, not_regular(&special));
        }
    }
    for (field, files) in splits(job) {
        for pattern in files.into_iter().flat_map(|files| &files.patterns) {
            if let Some(description) = missing_data(pattern, &user) {
                note(field, description);
            }
        }
    }
    if let Some(file) = job.data.chat_template_file() {
        if user.may(file, Access::READ_OK) == Err(Errno::ACCESS) {
            note(CHAT_TEMPLATE, user.not_accessible("read the file", file));
        } else if !file.is_file() {
            note(CHAT_TEMPLATE, format!("there is no file {}", file.display()));
        }
    }
    if let Some(file) = &job.notify.secret_file {
        if user.may(file, Access::READ_OK).is_err() {
            note("notify.secret_file", user.not_accessible("read the file", file));
        } else if !file.is_file() {
            note("notify.secret_file", not_regular(file));
        }
    }
    let checkpoint_dir = job.checkpoint_dir.as_deref().map(|folder| ("checkpoint_dir", folder));
    for (field, folder) in
        [("output_dir", job.output_dir.as_path())].into_iter().chain(checkpoint_dir)
    {
        if let Some(description) = unwritable(folder, &user) {
            note(field, description);
        }
    }
    if let Some(description) = missing_checkpoint(job, &user) {
        note("train.resume_from_checkpoint", description);
    }
    missing
}

/// The job without the data that is missing, of which all else can be planned; None where the planner would read a path
/// that is missing or no file.
pub(crate) fn without_missing(job: &JobFile, missing: &[FieldViolation]) -> Option<JobFile> {
    let mut rest = job.clone();
    for FieldViolation { field, .. } in missing {
        match field.as_str() {
            "data.train" => rest.data.train = None,
            "data.validation" => rest.data.validation = None,
            "data.test" => rest.data.test = None,
            CHAT_TEMPLATE => return None,
            field if job.weight_folders().any(|(of_weights, _)| of_weights == field) => {
                return None;
            }
            _ => {}
        }
    }
    Some(rest)
}

/// Explains why a folder cannot be created or written. Only the runner can check a bucket.
fn unwritable(folder: &Path, user: &Reader) -> Option<String> {
    if DataFiles::is_url(folder) {
        return None;
    }
    if let Some(description) = objection(folder) {
        return Some(description);
    }
    let existing = folder.ancestors().find(|folder| folder.exists())?;
    if !existing.is_dir() {
        return Some(format!("{} exists and is not a folder", existing.display()));
    }
    match user.may(existing, Access::WRITE_OK | Access::EXEC_OK) {
        Err(Errno::ACCESS) => Some(user.not_accessible("write to", existing)),
        Err(Errno::ROFS) => {
            Some(format!("{} is on a file system that is mounted read-only", existing.display()))
        }
        _ => None,
    }
}

/// Explains why a job cannot resume from its checkpoint. The job that it comes after may still write one.
fn missing_checkpoint(job: &JobFile, user: &Reader) -> Option<String> {
    let Some(ResumeFrom::Folder(folder)) = &job.train.resume_from_checkpoint else { return None };
    if DataFiles::is_url(folder) || job.resources.after.is_some() {
        return None;
    }
    match user.may(folder, Access::READ_OK | Access::EXEC_OK) {
        Err(Errno::ACCESS) => Some(user.not_accessible("read the folder", folder)),
        _ if !folder.is_dir() => Some(format!("there is no folder {}", folder.display())),
        // Or the folder has checkpoints.
        _ => special_file(folder, 1).as_deref().map(not_regular),
    }
}

/// The job's user, whose file access this thread has.
struct Reader {
    account: Option<Account>,
}

impl Reader {
    fn may(&self, path: &Path, access: Access) -> Result<(), Errno> {
        accessat(CWD, path, access, AtFlags::EACCESS)
    }

    /// Describes a path that exists and is not accessible to the job's user.
    fn not_accessible(&self, action: &str, path: &Path) -> String {
        let name = user_name(self.account.unwrap_or_else(Account::own).uid);
        format!("the job's user {name} may not {action} {}", path.display())
    }
}

fn missing_data(pattern: &Path, user: &Reader) -> Option<String> {
    if DataFiles::is_url(pattern) {
        // Only the runner has the credentials.
        return None;
    }
    let shown = pattern.display();
    if !DataFiles::is_searched(pattern) {
        return match user.may(pattern, Access::READ_OK) {
            Err(Errno::ACCESS) => Some(user.not_accessible("read", pattern)),
            _ if is_special(pattern) => Some(not_regular(pattern)),
            // Only files are read from a folder with classes.
            _ if is_saved_data_set(pattern) => special_file(pattern, 1).as_deref().map(not_regular),
            _ => (!pattern.exists()).then(|| format!("there is no file {shown}")),
        };
    }
    let found = globs::look(pattern)?;
    match &found.special {
        // What is no file is left out among files.
        _ if found.has_file || !found.is_complete => None,
        Some(special) => Some(not_regular(special)),
        None => Some(format!("no file matches {shown}")),
    }
}

/// Returns true for a folder that `datasets` saved, whose files a file in it names.
fn is_saved_data_set(folder: &Path) -> bool {
    ["dataset_dict.json", "state.json"].iter().any(|name| folder.join(name).exists())
}

/// An entry of a folder, or of its folders down to `depth`, that is neither a file nor a folder. The folder's own
/// entries come first. Hidden entries, such as those of Git, are not read and do not matter.
fn special_file(folder: &Path, depth: u32) -> Option<PathBuf> {
    special_file_among(folder, depth, ENTRIES_MAX)
}

fn special_file_among(folder: &Path, depth: u32, entries_max: usize) -> Option<PathBuf> {
    let (mut folders, mut left) = (vec![folder.to_owned()], entries_max);
    for _ in 0..=depth {
        for folder in mem::take(&mut folders) {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                left = left.checked_sub(1)?;
                if entry.file_name().as_encoded_bytes().starts_with(b".") {
                    continue;
                }
                let path = entry.path();
                match path.metadata() {
                    Ok(found) if found.is_dir() => folders.push(path),
                    Ok(found) if !found.is_file() => return Some(path),
                    _ => {}
                }
            }
        }
    }
    None
}

/// Whether it is a pipe, a socket or a device: opening it may block, and reading it may never end.
fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}

fn not_regular(path: &Path) -> String {
    format!("{} is a pipe, a socket or a device, and not a file", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::admission::make_pipe;

    #[test]
    fn a_file_that_is_named_like_a_pattern_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let named = folder.path().join("rows [1].csv");
        let said = || missing_data(&named, &Reader { account: None });
        assert_eq!(said(), Some(format!("no file matches {}", named.display())));
        fs::write(&named, "").unwrap();
        assert_eq!(said(), None);
    }

    #[test]
    fn the_search_for_special_files_has_one_budget_for_all_folders() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a/deep", "b"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        for name in ["x", "a/x", "b/x"] {
            fs::write(path(name), "").unwrap();
        }
        let pipe = |name: &str| {
            make_pipe(&path(name));
            path(name)
        };
        let deep = pipe("a/deep/pipe");
        assert_eq!(special_file(folder.path(), 1), None);
        assert_eq!(special_file(folder.path(), 2), Some(deep));
        // Among four entries of folders; the folder itself has three.
        let found = pipe("b/pipe");
        assert_eq!(special_file_among(folder.path(), 1, 7), Some(found));
        assert_eq!(special_file_among(folder.path(), 1, 3), None);
        pipe(".pipe");
        let first = pipe("pipe");
        assert_eq!(special_file_among(folder.path(), 1, 5), Some(first));
    }

    /// Data are refused where the loader refuses them, and not for what it leaves out.
    #[test]
    fn a_pipe_beside_files_that_are_read_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["classes/a", "saved/train"] {
            fs::create_dir_all(path(name)).unwrap();
            make_pipe(&path(name).join("pipe.txt"));
        }
        fs::write(path("saved/dataset_dict.json"), "{}").unwrap();
        let problem = |name: &str| missing_data(&path(name), &Reader { account: None });
        assert_eq!(problem("classes"), None);
        assert!(problem("saved").unwrap().contains("pipe.txt is a pipe"));
        assert!(problem("classes/a/*.txt").unwrap().contains("pipe.txt is a pipe"));
        fs::write(path("classes/a/1.txt"), "").unwrap();
        assert_eq!(problem("classes/a/*.txt"), None);
    }
}
