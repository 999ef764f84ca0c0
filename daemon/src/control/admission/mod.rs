//! Admission of submitted jobs: the job file is valid, the files that it names exist, and the host
//! has the cores, the plugin, the memory and the disk space. Never reads the contents of files.

mod files;
mod globs;
mod machine;
mod occupied;
mod planned;
mod quotas;
mod request;

use std::path::Path;

use traind_job_file::{Engine, JobFile, Parsed, Violation};

pub(crate) use files::{missing_files, without_missing};
pub(crate) use machine::check_machine;
pub(crate) use occupied::{refuse_occupied, with_occupied};
pub(crate) use planned::{
    choose_mesh, fit_batch, refuse_misfit, refuse_without_space, warn_of_programs,
};
pub(crate) use quotas::{refuse_beyond_group, refuse_full_disk, refuse_full_queue};
pub(crate) use request::{Submission, repeated};
pub(super) use request::{check_request_id, digest};

use super::error::{Error, FieldViolation};
use crate::access::account::{Account, user_name, with_rights_of};
use crate::clock;
use crate::job_id;
use crate::jobs::store::{JobWarning, NewJob, Resolved, Store};
use crate::notification::receivers_of;
use crate::settings::{Prices, Settings};
use files::outside;

/// A job whose file is valid, and whose paths may be looked up.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub new: NewJob,
    pub job: JobFile,
    /// Files that are missing or not accessible.
    pub missing: Vec<FieldViolation>,
}

/// Checks that the job file is valid, and looks up its paths. An error lists all violations.
pub(crate) fn admit(submission: &Submission, settings: &Settings) -> Result<Admitted, Error> {
    let base_dir = Path::new(&submission.base_dir);
    let parsed =
        JobFile::parse_with_overrides(&submission.job_file, &submission.overrides, base_dir);
    let Parsed { mut job, warnings } = parsed.map_err(|violations| Error::JobFile {
        violations: violations.into_iter().map(FieldViolation::from).collect(),
    })?;
    let Submission { owner, account, .. } = submission;
    refuse(forbidden_notifications(&job, owner, *account, settings))?;
    // First, so that paths outside the allowed folders are not even looked up.
    refuse(outside(&job, &settings.roots))?;
    let missing = with_rights_of(submission.account, || missing_files(&job, submission.account));
    let missing = missing.map_err(Error::Switch)?;
    let prices = match job.resources.engine {
        Engine::Local => settings.prices.of(job.resources.cores, settings.host.core_count()),
        _ => Prices::default(),
    };
    // The job file's price takes precedence, and is compared with no other.
    let is_priced = job.resources.price_per_hour.is_some();
    job.resources.price_per_hour = job.resources.price_per_hour.or(prices.per_hour);
    let warning = |warning: traind_job_file::Warning| JobWarning {
        code: warning.code.to_owned(),
        message: warning.to_string(),
    };
    let on_demand = prices.on_demand_per_hour.filter(|_| !is_priced);
    let warnings = warnings.into_iter().map(warning).collect();
    let new = new_job(submission, &job, warnings, on_demand)?;
    Ok(Admitted { new, job, missing })
}

fn refuse(violations: Vec<FieldViolation>) -> Result<(), Error> {
    if violations.is_empty() { Ok(()) } else { Err(Error::JobFile { violations }) }
}

fn new_job(
    submission: &Submission,
    job: &JobFile,
    warnings: Vec<JobWarning>,
    on_demand_price_per_hour: Option<f64>,
) -> Result<NewJob, Error> {
    Ok(NewJob {
        id: job_id::new().map_err(Error::Random)?,
        create_time: clock::now(),
        name: job.name.clone(),
        owner: submission.owner.clone(),
        run_as: submission.account,
        request_id: submission.request_id.clone(),
        request_digest: submission.digest.clone(),
        platform: job.resources.platform.to_string(),
        core_count: job.resources.total_cores(),
        priority: job.resources.priority,
        max_run_seconds: job.resources.max_run_seconds,
        max_wait_seconds: job.resources.max_wait_seconds,
        after: job.resources.after.clone(),
        max_restarts: job.resources.max_restarts,
        price_per_hour: job.resources.price_per_hour,
        engine: job.resources.engine.to_string(),
        hosts: job.resources.hosts,
        on_demand_price_per_hour,
        receivers: receivers_of(&job.notify),
        output_dir: job.output_dir.display().to_string(),
        job_file: submission.job_file.clone(),
        base_dir: submission.base_dir.clone(),
        resolved: resolved(job)?,
        warnings,
        parent: submission.parent.clone(),
    })
}

/// The job as the store keeps it beside its file: resolved, and without keys that have their defaults.
pub(super) fn resolved(job: &JobFile) -> Result<String, Error> {
    Ok(job.without_defaults().map_err(Error::Resolved)?.to_string())
}

/// Every notification that would give the job's user more rights than the job has.
pub(super) fn forbidden_notifications(
    job: &JobFile,
    owner: &str,
    account: Option<Account>,
    settings: &Settings,
) -> Vec<FieldViolation> {
    let (notify, mut forbidden) = (&job.notify, Vec::new());
    let mut note = |field: &str, description: &str| {
        let (field, description) = (field.to_owned(), description.to_owned());
        forbidden.push(FieldViolation { field, description });
    };
    let is_own = || owner == user_name(Account::own().uid);
    if !notify.command.is_empty() && !settings.roots.is_empty() {
        note("notify.command", "is not allowed by a daemon that confines jobs to folders");
    } else if !notify.command.is_empty() && account.is_none() && !is_own() {
        let description = "would run as the daemon's user; it needs a daemon that runs jobs as \
            their submitters";
        note("notify.command", description);
    }
    for url in &notify.webhooks {
        if let Some(objection) = settings.roots.objection_to_url(url) {
            note("notify.webhooks", &objection);
        }
    }
    if let Some(objection) =
        notify.secret_file.as_ref().and_then(|path| settings.roots.objection(path))
    {
        note("notify.secret_file", &objection);
    }
    forbidden
}

/// Resolves the job that a new one comes after, among those of the same user.
pub(crate) fn resolve_after(store: &Store, new: &mut NewJob) -> Result<(), Error> {
    let Some(reference) = &new.after else { return Ok(()) };
    let Resolved::Job(job) = store.resolve(reference, Some(&new.owner))? else {
        let description = format!("no job of {} has the id or name {reference:?}", new.owner);
        let field = "resources.after".to_owned();
        return Err(Error::JobFile { violations: vec![FieldViolation { field, description }] });
    };
    new.after = Some(job.id);
    Ok(())
}

impl From<Violation> for FieldViolation {
    fn from(violation: Violation) -> FieldViolation {
        let Violation { field, mut description, line, .. } = violation;
        if let Some(line) = line {
            description.push_str(&format!(" (line {line})"));
        }
        if field.is_empty() {
            description.insert_str(0, "the job file ");
        }
        FieldViolation { field, description }
    }
}

/// Makes a pipe with a name.
#[cfg(test)]
fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success(), "{}", path.display());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn submission(job_file: &str) -> Submission {
        Submission {
            owner: "ann".into(),
            account: None,
            request_id: "r".into(),
            job_file: job_file.into(),
            base_dir: "/".into(),
            overrides: BTreeMap::new(),
            digest: Vec::new(),
            parent: None,
        }
    }

    #[test]
    fn all_violations_of_a_job_file_are_kept_with_their_lines() {
        let yaml = "name: x\nmodell: 1\ntrain: {learning_rate: -1}\n";
        let error = admit(&submission(yaml), &Settings::example()).unwrap_err();
        let Error::JobFile { violations } = error else { panic!("{error}") };
        assert!(violations.len() >= 3, "{violations:?}");
        assert!(violations.iter().any(|v| v.description.contains("(line 2)")), "{violations:?}");
    }
}
