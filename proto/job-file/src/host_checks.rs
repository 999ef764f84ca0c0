//! Checks of what a cluster's scheduler needs to place a job's hosts.

use crate::problems::{FIELD_UNUSED, Problems};
use crate::schema::JobFile;
use crate::schema::kubernetes::Kubernetes;
use crate::schema::resources::Engine;
use crate::schema::slurm::Slurm;

/// Options of `sbatch` that the job file or the daemon decides.
const RESERVED_OPTIONS: &[(&str, &str)] = &[
    ("account", "slurm.account"),
    ("array", "the daemon"),
    ("chdir", "the daemon"),
    ("constraint", "slurm.constraint"),
    ("cpus-per-task", "resources.cores"),
    ("error", "the daemon"),
    ("exclude", "slurm.exclude"),
    ("export", "the daemon"),
    ("job-name", "name"),
    ("no-requeue", "resources.max_restarts"),
    ("nodes", "resources.hosts"),
    ("ntasks", "resources.hosts"),
    ("ntasks-per-node", "resources.hosts"),
    ("output", "the daemon"),
    ("parsable", "the daemon"),
    ("partition", "slurm.partition"),
    ("qos", "slurm.qos"),
    ("requeue", "resources.max_restarts"),
    ("signal", "the daemon"),
    ("time", "resources.max_run_seconds"),
    ("uid", "the daemon"),
    ("wait", "the daemon"),
    ("wrap", "the daemon"),
];

/// Reports options that do not fit the engine.
pub(crate) fn check(job: &JobFile, problems: &mut Problems) {
    let engine = job.resources.engine;
    if engine != Engine::Slurm && is_given(&job.slurm) {
        let description = "has no effect without `resources.engine: slurm`";
        problems.warning(FIELD_UNUSED, "slurm", description);
    }
    if engine != Engine::Kubernetes && is_any_given(&job.kubernetes) {
        let description = "has no effect without `resources.engine: kubernetes`";
        problems.warning(FIELD_UNUSED, "kubernetes", description);
    }
    check_options(&job.slurm, problems);
    check_kubernetes(job, problems);
}

fn is_given(slurm: &Slurm) -> bool {
    let Slurm { partition, account, qos, constraint, exclude, options } = slurm;
    let texts = [partition, account, qos, constraint, exclude];
    texts.into_iter().any(Option::is_some) || !options.is_empty()
}

fn is_any_given(kubernetes: &Kubernetes) -> bool {
    let Kubernetes { image, image_pull_secret, service_account, volume_claim, .. } = kubernetes;
    let Kubernetes { node_selector, limits, .. } = kubernetes;
    [image, image_pull_secret, service_account, volume_claim].into_iter().any(Option::is_some)
        || node_selector.iter().next().is_some()
        || limits.iter().next().is_some()
}

fn check_options(slurm: &Slurm, problems: &mut Problems) {
    for (index, option) in slurm.options.iter().enumerate() {
        let path = format!("slurm.options[{index}]");
        let Some(text) = option.strip_prefix("--") else {
            let description = format!("must have the form --NAME or --NAME=VALUE, not `{option}`");
            problems.violation(&path, description);
            continue;
        };
        let name = text.split_once('=').map_or(text, |(name, _)| name);
        // `sbatch` accepts the beginning of an option's name.
        match RESERVED_OPTIONS.iter().find(|(reserved, _)| reserved.starts_with(name)) {
            Some((reserved, "the daemon")) => {
                problems.violation(&path, format!("--{reserved} is set by the daemon"));
            }
            Some((reserved, key)) => {
                problems.violation(&path, format!("--{reserved} follows from `{key}`"));
            }
            None => {}
        }
    }
}

fn check_kubernetes(job: &JobFile, problems: &mut Problems) {
    let Kubernetes { image, namespace, volume_claim, mount_path, .. } = &job.kubernetes;
    if job.resources.engine == Engine::Kubernetes && image.is_none() {
        let description = "is required with `resources.engine: kubernetes`";
        problems.violation("kubernetes.image", description);
    }
    if !is_dns_label(namespace) {
        let description = format!("`{namespace}` is not a namespace name");
        problems.violation("kubernetes.namespace", description);
    }
    if volume_claim.is_some() != mount_path.is_some() {
        let (missing, given) = match volume_claim {
            Some(_) => ("kubernetes.mount_path", "kubernetes.volume_claim"),
            None => ("kubernetes.volume_claim", "kubernetes.mount_path"),
        };
        problems.violation(missing, format!("is required with {given}"));
    }
    if mount_path.as_ref().is_some_and(|path| !path.is_absolute()) {
        problems.violation("kubernetes.mount_path", "must be absolute");
    }
}

/// Whether `name` is a label of RFC 1123.
fn is_dns_label(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    (1..=63).contains(&name.len())
        && name.starts_with(is_letter)
        && name.ends_with(is_letter)
        && name.chars().all(|letter| is_letter(letter) || letter == '-')
}
