//! Admission of submitted jobs: the job file is valid, the files that it names exist, and the host
//! has the cores, the plugin, the memory and the disk space. Never reads the contents of files.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use traind_job_file::{DataFiles, Engine, JobFile, Parsed, Violation};
use traind_proto::v1;

use super::error::{Error, FieldViolation};
use super::planner::Plan;
use crate::access::Caller;
use crate::access::account::{Account, user_name, with_rights_of};
use crate::access::roots::Roots;
use crate::clock;
use crate::host::Host;
use crate::host::plugins;
use crate::job_id;
use crate::jobs::cluster::{Cluster, ClusterError};
use crate::jobs::store::{Job, JobWarning, NewJob, Parent, Resolved, Store};
use crate::notification::receivers_of;
use crate::settings::{Prices, Settings};

/// Code of the warning about a batch size that did not fit.
const BATCH_SIZE_LOWERED: &str = "BATCH_SIZE_LOWERED";

/// Code of the warning about the mesh that the planner chose.
const MESH_CHOSEN: &str = "MESH_CHOSEN";

const REQUEST_ID_CHARACTERS_MAX: usize = 128;

/// A client's request, of which only the form has been checked.
#[derive(Clone, Debug)]
pub(crate) struct Submission {
    pub owner: String,
    pub account: Option<Account>,
    /// Empty if every request creates a job.
    pub request_id: String,
    /// YAML.
    pub job_file: String,
    pub base_dir: String,
    /// By field path.
    pub overrides: BTreeMap<String, String>,
    /// Distinguishes a repeated request from another one with the same id.
    pub digest: Vec<u8>,
    /// The checkpoint of another job that the job file names.
    pub parent: Option<Parent>,
}

impl Submission {
    pub(crate) fn new(request: v1::CreateJobRequest, caller: Caller) -> Result<Submission, Error> {
        let Caller { user: owner, account, .. } = caller;
        let v1::CreateJobRequest { request_id, job_file, base_dir, overrides } = request;
        check_request_id(&request_id)?;
        let overrides: BTreeMap<String, String> = overrides.into_iter().collect();
        let digest = digest([&job_file, &base_dir], &overrides);
        let parent = None;
        Ok(Submission { owner, account, request_id, job_file, base_dir, overrides, digest, parent })
    }
}

/// Refuses an overlong id of a request.
pub(super) fn check_request_id(request_id: &str) -> Result<(), Error> {
    let length = request_id.chars().count();
    if length > REQUEST_ID_CHARACTERS_MAX {
        let description =
            format!("has {length} characters; at most {REQUEST_ID_CHARACTERS_MAX} are allowed");
        return Err(Error::Request { field: "request_id", description });
    }
    Ok(())
}

/// A digest of everything that a client asked for.
pub(super) fn digest(parts: [&str; 2], overrides: &BTreeMap<String, String>) -> Vec<u8> {
    let overrides = overrides.iter().flat_map(|(field, value)| [field.as_str(), value.as_str()]);
    let mut digest = Sha256::new();
    for part in parts.into_iter().chain(overrides) {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finalize().to_vec()
}

/// Returns the job that the same request created before. Checked first, since the job's files may
/// have been removed since.
pub(crate) fn repeated(store: &Store, submission: &Submission) -> Result<Option<Job>, Error> {
    if submission.request_id.is_empty() {
        return Ok(None);
    }
    match store.by_request(&submission.owner, &submission.request_id)? {
        None => Ok(None),
        Some((job, digest)) if digest == submission.digest => Ok(Some(job)),
        Some((job, _)) => {
            Err(Error::RequestReused { request_id: submission.request_id.clone(), id: job.id })
        }
    }
}

/// Checks that the job can run on this host. An error lists all violations.
pub(crate) fn admit(
    submission: &Submission,
    settings: &Settings,
) -> Result<(NewJob, JobFile), Error> {
    let base_dir = Path::new(&submission.base_dir);
    let parsed =
        JobFile::parse_with_overrides(&submission.job_file, &submission.overrides, base_dir);
    let Parsed { mut job, warnings } = parsed.map_err(|violations| Error::JobFile {
        violations: violations.into_iter().map(FieldViolation::from).collect(),
    })?;
    let forbidden = forbidden_notifications(&job, submission, settings);
    if !forbidden.is_empty() {
        return Err(Error::JobFile { violations: forbidden });
    }
    // First, so that paths outside the allowed folders are not even looked up.
    let outside = outside(&job, &settings.roots);
    if !outside.is_empty() {
        return Err(Error::JobFile { violations: outside });
    }
    let missing = with_rights_of(submission.account, || missing_files(&job, submission.account));
    let missing = missing.map_err(Error::Switch)?;
    if !missing.is_empty() {
        return Err(Error::JobFile { violations: missing });
    }
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
    let new = NewJob {
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
        on_demand_price_per_hour: prices.on_demand_per_hour.filter(|_| !is_priced),
        receivers: receivers_of(&job.notify),
        output_dir: job.output_dir.display().to_string(),
        job_file: submission.job_file.clone(),
        base_dir: submission.base_dir.clone(),
        resolved: serde_json::to_string(&job).map_err(Error::Resolved)?,
        warnings: warnings.into_iter().map(warning).collect(),
        parent: submission.parent.clone(),
    };
    Ok((new, job))
}

/// Every notification that would give the job's user more rights than the job has.
fn forbidden_notifications(
    job: &JobFile,
    submission: &Submission,
    settings: &Settings,
) -> Vec<FieldViolation> {
    let (notify, mut forbidden) = (&job.notify, Vec::new());
    let mut note = |field: &str, description: &str| {
        let (field, description) = (field.to_owned(), description.to_owned());
        forbidden.push(FieldViolation { field, description });
    };
    let is_own = || submission.owner == user_name(Account::own().uid);
    if !notify.command.is_empty() && !settings.roots.is_empty() {
        note("notify.command", "is not allowed by a daemon that confines jobs to folders");
    } else if !notify.command.is_empty() && submission.account.is_none() && !is_own() {
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

/// Refuses a job that does not fit this host.
pub(crate) fn refuse_misfit(plan: &Plan, job: &JobFile, state_dir: &Path) -> Result<(), Error> {
    if let (Some(misfit), Some(available)) = (&plan.misfit, plan.bytes_per_core_max) {
        let change = misfit.change.clone();
        return Err(Error::Memory { plan: Box::new(plan.clone()), available, change });
    }
    // What is uploaded is first written into the run folder.
    let folder = match DataFiles::is_url(&job.output_dir) {
        true => state_dir.to_owned(),
        false => existing_ancestor(&job.output_dir),
    };
    // If the file system does not report its space, the runner will find out.
    let Ok(space) = rustix::fs::statvfs(&folder) else { return Ok(()) };
    let available = space.f_bavail.saturating_mul(space.f_frsize);
    match plan.disk_bytes > available {
        true => Err(Error::Disk { wanted: plan.disk_bytes, available, folder }),
        false => Ok(()),
    }
}

/// With `parallel: auto`, gives the job the mesh that the plan puts first.
pub(crate) fn choose_mesh(plan: &Plan, new: &mut NewJob, job: &mut JobFile) -> Result<(), Error> {
    let (Some(chosen), Some(mesh)) = (&plan.job, plan.meshes.first()) else { return Ok(()) };
    if let (false, Some(available)) = (mesh.fits, plan.bytes_per_core_max) {
        return Err(Error::Memory { plan: Box::new(plan.clone()), available, change: None });
    }
    *job = (**chosen).clone();
    new.resolved = serde_json::to_string(&job).map_err(Error::Resolved)?;
    let (parallel, train) = (&job.parallel, &job.train);
    new.warnings.push(JobWarning {
        code: MESH_CHOSEN.to_owned(),
        message: format!(
            "parallel.auto: is data: {}, tensor: {}, sequence_parallel: {}, pipeline: {}, \
             pipeline_interleave: {}, microbatches: {}, fsdp: {} with per_device_train_batch_size: {}, \
             gradient_accumulation_steps: {}, gradient_checkpointing: {}; {:.3} s a step by prediction",
            mesh.data,
            parallel.tensor,
            parallel.sequence_parallel,
            parallel.pipeline,
            parallel.pipeline_interleave,
            mesh.microbatches,
            parallel.fsdp,
            train.per_device_train_batch_size,
            train.gradient_accumulation_steps,
            train.gradient_checkpointing,
            mesh.step_seconds,
        ),
    });
    Ok(())
}

/// With `auto_find_batch_size`, gives the job the batch size that the plan found to fit.
pub(crate) fn fit_batch(plan: &Plan, new: &mut NewJob, job: &mut JobFile) -> Result<(), Error> {
    let asked = job.train.per_device_train_batch_size;
    if !job.train.auto_find_batch_size || plan.rows == asked {
        return Ok(());
    }
    job.train.per_device_train_batch_size = plan.rows;
    new.resolved = serde_json::to_string(&job).map_err(Error::Resolved)?;
    new.warnings.push(JobWarning {
        code: BATCH_SIZE_LOWERED.to_owned(),
        message: format!(
            "train.per_device_train_batch_size: is lowered from {asked} to {}, which fits in the \
             memory of a core (train.auto_find_batch_size)",
            plan.rows
        ),
    });
    Ok(())
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

fn existing_ancestor(path: &Path) -> PathBuf {
    path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/")).to_owned()
}

/// Refuses a job that this host, or its cluster, could never run.
pub(crate) fn check_machine(job: &JobFile, settings: &Settings) -> Result<(), Error> {
    check_hosts(job)?;
    if let Some(cluster) = Cluster::of(job.resources.engine) {
        let unavailable = |error: ClusterError| Error::Engine {
            engine: job.resources.engine,
            reason: error.to_string(),
        };
        cluster.check().map_err(unavailable)?;
        return check_plugin(job, &settings.cache_dir);
    }
    check_host(job, &settings.host)?;
    check_plugin(job, &settings.cache_dir)?;
    check_count(job.resources.cores, settings)
}

/// Refuses several hosts with an engine that starts runners on its own host alone.
fn check_hosts(job: &JobFile) -> Result<(), Error> {
    let hosts = job.resources.hosts;
    if hosts == 1 || Cluster::of(job.resources.engine).is_some() {
        return Ok(());
    }
    let description = format!(
        "is {hosts}, and `resources.engine: local` runs a job on the daemon's host alone; set the \
         engine to slurm or kubernetes, or start traind-runner on each host yourself"
    );
    let field = "resources.hosts".to_owned();
    Err(Error::JobFile { violations: vec![FieldViolation { field, description }] })
}

fn check_host(job: &JobFile, host: &Host) -> Result<(), Error> {
    let platform = job.resources.platform.to_string();
    if platform != host.platform {
        return Err(Error::Platform { offered: host.platform.clone(), platform });
    }
    let (wanted, available) = (job.resources.cores, host.core_count());
    if wanted > available {
        return Err(Error::Cores { platform, available, wanted });
    }
    Ok(())
}

fn check_plugin(job: &JobFile, cache_dir: &Path) -> Result<(), Error> {
    let platform = job.resources.platform.to_string();
    let plugin = plugins::plugin(&platform);
    match plugin.map(|plugin| (plugin.find(cache_dir), plugin)) {
        Ok((Some(_), _)) => Ok(()),
        Ok((None, plugin)) => Err(Error::Plugin { platform, instructions: plugin.instructions() }),
        Err(error) => Err(Error::Plugin { platform, instructions: error.to_string() }),
    }
}

/// Refuses a number of cores that no job can ever get.
fn check_count(wanted: u32, settings: &Settings) -> Result<(), Error> {
    let host = &settings.host;
    if let Some(limit) = settings.cores_per_user.filter(|limit| wanted > *limit) {
        return Err(Error::CoresOfUser { limit, wanted });
    }
    match host.core_counts() {
        Some(counts) if !counts.contains(&wanted) => {
            let counts = counts.iter().map(ToString::to_string).collect();
            Err(Error::CoreCount { device: host.device(0).to_owned(), counts, wanted })
        }
        _ => Ok(()),
    }
}

/// Every path of the job file that is outside the allowed folders.
fn outside(job: &JobFile, roots: &Roots) -> Vec<FieldViolation> {
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
fn missing_files(job: &JobFile, account: Option<Account>) -> Vec<FieldViolation> {
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
        }
    }
    for (field, files) in splits(job) {
        for pattern in files.into_iter().flat_map(|files| &files.patterns) {
            if let Some(description) = missing_data(pattern, &user) {
                note(field, description);
            }
        }
    }
    if let Some(file) = &job.notify.secret_file
        && user.may(file, Access::READ_OK).is_err()
    {
        note("notify.secret_file", user.not_accessible("read the file", file));
    }
    let checkpoint_dir = job.checkpoint_dir.as_deref().map(|folder| ("checkpoint_dir", folder));
    for (field, folder) in
        [("output_dir", job.output_dir.as_path())].into_iter().chain(checkpoint_dir)
    {
        if let Some(description) = unwritable(folder, &user) {
            note(field, description);
        }
    }
    missing
}

/// Explains why a folder cannot be created or written. Only the runner can check a bucket.
fn unwritable(folder: &Path, user: &Reader) -> Option<String> {
    if DataFiles::is_url(folder) {
        return None;
    }
    if folder.exists() && !folder.is_dir() {
        return Some(format!("{} exists and is not a folder", folder.display()));
    }
    let existing = folder.ancestors().find(|folder| folder.exists())?;
    match user.may(existing, Access::WRITE_OK | Access::EXEC_OK) {
        Err(Errno::ACCESS) => Some(user.not_accessible("write to", existing)),
        _ => None,
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
    if !DataFiles::is_glob(pattern) {
        return match user.may(pattern, Access::READ_OK) {
            Err(Errno::ACCESS) => Some(user.not_accessible("read", pattern)),
            // A folder may be a data set saved by `datasets`, which the runner checks.
            _ => (!pattern.exists()).then(|| format!("there is no file {shown}")),
        };
    }
    let found = glob::glob(pattern.to_str()?).ok()?.flatten().any(|path| path.is_file());
    (!found).then(|| format!("no file matches {shown}"))
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

#[cfg(test)]
mod tests {
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
    fn digests_depend_on_where_one_part_ends() {
        let none = BTreeMap::new();
        assert_ne!(digest(["ab", "c"], &none), digest(["a", "bc"], &none));
        assert_eq!(digest(["ab", "c"], &none), digest(["ab", "c"], &none));
    }

    #[test]
    fn an_overlong_request_id_is_refused() {
        let request = v1::CreateJobRequest { request_id: "x".repeat(129), ..Default::default() };
        let error = Submission::new(request, Caller::example()).unwrap_err().to_string();
        assert_eq!(error, "request_id: has 129 characters; at most 128 are allowed");
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
