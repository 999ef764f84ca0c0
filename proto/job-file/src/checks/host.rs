//! Checks of what a cluster's scheduler needs to place a job's hosts.

use crate::problems::{FIELD_UNUSED, Problems, join};
use crate::schema::JobFile;
use crate::schema::kubernetes::{Kubernetes, TaintEffect, Toleration, TolerationOperator};
use crate::schema::resources::Engine;
use crate::schema::slurm::Slurm;
use crate::values::Mapping;

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
    let Kubernetes { image, image_pull_secret, service_account, queue, .. } = kubernetes;
    let Kubernetes { node_selector, labels, annotations, limits, .. } = kubernetes;
    [image, image_pull_secret, service_account, queue, &kubernetes.volume_claim]
        .into_iter()
        .any(Option::is_some)
        || [node_selector, labels, annotations].iter().any(|it| it.iter().next().is_some())
        || !kubernetes.tolerations.is_empty()
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
    check_names(&job.kubernetes, problems);
    for (index, toleration) in job.kubernetes.tolerations.iter().enumerate() {
        if let Some(description) = fault(toleration) {
            problems.violation(&format!("kubernetes.tolerations[{index}]"), description);
        }
    }
}

/// Checks what becomes a label or an annotation.
fn check_names(kubernetes: &Kubernetes, problems: &mut Problems) {
    let Kubernetes { queue, node_selector, labels, annotations, .. } = kubernetes;
    if let Some(queue) = queue.as_ref().filter(|queue| !is_label_part(queue)) {
        problems.violation("kubernetes.queue", format!("`{queue}` is not the name of a queue"));
    }
    check_labels("kubernetes.node_selector", node_selector, problems);
    check_labels("kubernetes.labels", labels, problems);
    for (section, pairs) in [("kubernetes.labels", labels), ("kubernetes.annotations", annotations)]
    {
        for (key, _) in pairs.iter() {
            let path = join(section, key);
            if !is_label_key(key) {
                problems.violation(&path, "is not the name of a label");
            } else if key == Kubernetes::QUEUE_LABEL {
                problems.violation(&path, "follows from `kubernetes.queue`");
            } else if key.starts_with("traind/") {
                problems.violation(&path, "is set by the daemon");
            }
        }
    }
}

fn check_labels(section: &str, labels: &Mapping<String>, problems: &mut Problems) {
    for (key, value) in labels.iter().filter(|(_, value)| !is_label_part(value)) {
        let description = format!("`{value}` is not the value of a label");
        problems.violation(&join(section, key), description);
    }
}

/// Why the API server refuses a toleration.
fn fault(toleration: &Toleration) -> Option<&'static str> {
    let Toleration { key, operator, value, effect, toleration_seconds } = toleration;
    match operator {
        Some(TolerationOperator::Exists) if value.is_some() => {
            Some("has a `value`, which `operator: Exists` does not compare")
        }
        None | Some(TolerationOperator::Equal) if key.is_none() => {
            Some("needs a `key`, or `operator: Exists` for all taints")
        }
        _ if toleration_seconds.is_some() && *effect != Some(TaintEffect::NoExecute) => {
            Some("has `toleration_seconds`, which needs `effect: NoExecute`")
        }
        _ => None,
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

/// Whether `key` is a name with an optional prefix, such as `topology.kubernetes.io/zone`.
fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => prefix.split('.').all(is_dns_label) && is_label_part(name),
        None => is_label_part(key),
    }
}

/// Whether `text` can be the value of a label, or the name in its key.
fn is_label_part(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric();
    (1..=63).contains(&text.len())
        && text.starts_with(is_letter)
        && text.ends_with(is_letter)
        && text.chars().all(|letter| is_letter(letter) || "-_.".contains(letter))
}
