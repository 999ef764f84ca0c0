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
    // `sbatch` would read these files with the daemon's rights.
    ("bbf", "the daemon"),
    ("chdir", "the daemon"),
    // The daemon asks its own cluster for a job's state, and finds the job by its comment.
    ("clusters", "the daemon"),
    ("comment", "the daemon"),
    ("constraint", "slurm.constraint"),
    ("cpus-per-task", "resources.cores"),
    ("error", "the daemon"),
    ("exclude", "slurm.exclude"),
    ("export", "the daemon"),
    ("export-file", "the daemon"),
    ("get-user-env", "the daemon"),
    ("gid", "the daemon"),
    // With this option and the next ones, `sbatch` prints something and submits nothing.
    ("help", "the daemon"),
    ("input", "the daemon"),
    ("job-name", "name"),
    ("no-requeue", "resources.max_restarts"),
    ("nodefile", "the daemon"),
    ("nodes", "resources.hosts"),
    ("ntasks", "resources.hosts"),
    ("ntasks-per-node", "resources.hosts"),
    ("open-mode", "the daemon"),
    ("output", "the daemon"),
    ("parsable", "the daemon"),
    ("partition", "slurm.partition"),
    ("qos", "slurm.qos"),
    ("requeue", "resources.max_restarts"),
    ("signal", "the daemon"),
    // Another name of ntasks-per-node.
    ("tasks-per-node", "resources.hosts"),
    ("test-only", "the daemon"),
    ("time", "resources.max_run_seconds"),
    ("uid", "the daemon"),
    ("usage", "the daemon"),
    ("version", "the daemon"),
    ("wait", "the daemon"),
    ("wrap", "the daemon"),
];

/// The longest value of an option; a program takes no longer arguments than twice as long.
const OPTION_BYTES_MAX: usize = 64 << 10;
/// The longest name of an object in a cluster.
const DNS_NAME_BYTES_MAX: usize = 253;
/// The most that annotations have together.
const ANNOTATION_BYTES_MAX: usize = 256 << 10;

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
    check_words(&job.slurm, problems);
    check_options(&job.slurm, problems);
    check_hosts(&job.slurm, problems);
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

/// Checks that each value can be an argument of a program.
fn check_words(slurm: &Slurm, problems: &mut Problems) {
    let Slurm { partition, account, qos, constraint, exclude, options } = slurm;
    let keys = ["partition", "account", "qos", "constraint", "exclude"];
    let values = [partition, account, qos, constraint, exclude];
    let named = keys.iter().zip(values).filter_map(|(key, value)| Some((*key, value.as_ref()?)));
    for (key, value) in named.chain(options.iter().map(|option| ("options", option))) {
        let path = join("slurm", key);
        if value.chars().any(char::is_control) {
            problems.violation(&path, "must be one line without control characters");
        } else if value.len() > OPTION_BYTES_MAX {
            problems.violation(&path, format!("is longer than {OPTION_BYTES_MAX} bytes"));
        }
    }
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
        // `sbatch` accepts the beginning of an option's name, unless that is the name of another one.
        let is_reserved = |reserved: &str| reserved.starts_with(name) && name != "bb";
        match RESERVED_OPTIONS.iter().find(|(reserved, _)| is_reserved(reserved)) {
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

/// Refuses lists of hosts with a slash: `sbatch` takes them for names of files, which it would read with the daemon's
/// rights, and print lines of.
fn check_hosts(slurm: &Slurm, problems: &mut Problems) {
    const DESCRIPTION: &str =
        "is a list of hosts, whose names have no slash; files of hosts are not read";
    if slurm.exclude.as_ref().is_some_and(|hosts| hosts.contains('/')) {
        problems.violation("slurm.exclude", DESCRIPTION);
    }
    for (index, option) in slurm.options.iter().enumerate() {
        let (name, value) = option.split_once('=').unwrap_or_default();
        let is_list = name.strip_prefix("--").is_some_and(|name| "nodelist".starts_with(name));
        if is_list && value.contains('/') {
            problems.violation(&format!("slurm.options[{index}]"), DESCRIPTION);
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
    let has_other = |path: &str| path.chars().any(|letter| letter.is_control() || letter == ':');
    if mount_path.as_ref().is_some_and(|path| has_other(&path.to_string_lossy())) {
        problems.violation("kubernetes.mount_path", "must have no colon and no control characters");
    }
    check_objects(&job.kubernetes, problems);
    check_names(&job.kubernetes, problems);
    for (index, toleration) in job.kubernetes.tolerations.iter().enumerate() {
        if let Some(description) = fault(toleration) {
            problems.violation(&format!("kubernetes.tolerations[{index}]"), description);
        }
    }
}

/// Checks the names of objects in the cluster.
fn check_objects(kubernetes: &Kubernetes, problems: &mut Problems) {
    let Kubernetes { image_pull_secret, service_account, priority_class, volume_claim, .. } =
        kubernetes;
    let names = [
        ("image_pull_secret", image_pull_secret),
        ("service_account", service_account),
        ("priority_class", priority_class),
        ("volume_claim", volume_claim),
    ];
    for (key, name) in names {
        if let Some(name) = name.as_ref().filter(|name| !is_dns_name(name)) {
            let description = format!("`{name}` is not the name of an object");
            problems.violation(&join("kubernetes", key), description);
        }
    }
    let image = kubernetes.image.as_ref();
    if image.is_some_and(|it| it.is_empty() || it.chars().any(|it| it.is_control() || it == ' ')) {
        problems.violation("kubernetes.image", "is not the name of an image");
    }
    for (key, _) in kubernetes.limits.iter().filter(|(key, _)| !is_label_key(key)) {
        problems.violation(&join("kubernetes.limits", key), "is not the name of a resource");
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
    for (key, _) in node_selector.iter().filter(|(key, _)| !is_label_key(key)) {
        problems.violation(&join("kubernetes.node_selector", key), "is not the name of a label");
    }
    let bytes: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > ANNOTATION_BYTES_MAX {
        let description = format!("have {bytes} bytes, of {ANNOTATION_BYTES_MAX}");
        problems.violation("kubernetes.annotations", description);
    }
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
    if key.as_ref().is_some_and(|key| !is_label_key(key)) {
        return Some("has a `key` that is not the name of a label");
    }
    if value.as_ref().is_some_and(|value| !value.is_empty() && !is_label_part(value)) {
        return Some("has a `value` that is not that of a label");
    }
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

/// Whether `name` is a subdomain of RFC 1123, as the names of objects are.
fn is_dns_name(name: &str) -> bool {
    name.len() <= DNS_NAME_BYTES_MAX && name.split('.').all(is_dns_label)
}

/// Whether `key` is a name with an optional prefix, such as `topology.kubernetes.io/zone`.
fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_name(prefix) && is_label_part(name),
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
