//! Facts of the published schemas of `batch/v1` and `v1`: the fields that manifests of jobs may have, which of them are
//! required, and what values the API server accepts.
//!
//! Source: the OpenAPI document of Kubernetes and its rules of names (RFC 1123) and quantities.

use serde_json::Value;

/// The type of a field's value.
enum Type {
    Is(&'static str),
    OneOf(&'static [&'static str]),
    Text,
    /// A label of RFC 1123: of containers, volumes and services, which are parts of host names.
    Label,
    /// Labels of RFC 1123 with dots between them.
    Subdomain,
    /// The value of a label: at most 63 letters.
    LabelValue,
    /// A name with an optional prefix, such as `aws.amazon.com/neuron`.
    Qualified,
    Variable,
    Quantity,
    Path,
    Whole(i64, i64),
    Boolean,
    Object(&'static str),
    List(&'static Type),
    /// An object whose keys and values have these types.
    Map(&'static Type, &'static Type),
}

use Type::*;

/// A name that ends with `!` is required.
type Fields = &'static [(&'static str, Type)];

const OF_POD: (i64, i64) = (0, i32::MAX as i64);
const LABELS: Type = Map(&Qualified, &LabelValue);
const ANNOTATIONS: Type = Map(&Qualified, &Text);

/// The fields of a definition. Only those stand here that the daemon's manifests have.
fn fields(definition: &str) -> Fields {
    match definition {
        "Job" => &[
            ("apiVersion!", Is("batch/v1")),
            ("kind!", Is("Job")),
            ("metadata!", Object("ObjectMeta")),
            ("spec!", Object("JobSpec")),
        ],
        "Service" => &[
            ("apiVersion!", Is("v1")),
            ("kind!", Is("Service")),
            ("metadata!", Object("ObjectMeta")),
            ("spec!", Object("ServiceSpec")),
        ],
        "SelfSubjectAccessReview" => &[
            ("apiVersion!", Is("authorization.k8s.io/v1")),
            ("kind!", Is("SelfSubjectAccessReview")),
            ("spec!", Object("SelfSubjectAccessReviewSpec")),
        ],
        "SelfSubjectAccessReviewSpec" => &[("resourceAttributes", Object("ResourceAttributes"))],
        "ResourceAttributes" => &[
            ("namespace", Label),
            ("verb", OneOf(&["create", "delete", "get", "list"])),
            ("group", OneOf(&["", "batch"])),
            ("resource", OneOf(&["jobs", "pods", "services"])),
        ],
        "ObjectMeta" => &[
            // Also of the pods' subdomain, and with an index of their host names.
            ("name!", Label),
            ("namespace!", Label),
            ("labels", LABELS),
            ("annotations", ANNOTATIONS),
            ("ownerReferences", List(&Object("OwnerReference"))),
        ],
        "OwnerReference" => &[
            ("apiVersion!", Is("batch/v1")),
            ("kind!", Is("Job")),
            ("name!", Label),
            ("uid!", Text),
        ],
        "JobSpec" => &[
            ("template!", Object("PodTemplateSpec")),
            ("completionMode", OneOf(&["Indexed", "NonIndexed"])),
            // Required for indexed jobs.
            ("completions!", Whole(1, 100_000)),
            ("parallelism", Whole(0, 100_000)),
            ("backoffLimit", Whole(OF_POD.0, OF_POD.1)),
            ("activeDeadlineSeconds", Whole(1, i64::MAX)),
            ("ttlSecondsAfterFinished", Whole(OF_POD.0, OF_POD.1)),
            ("suspend", Boolean),
        ],
        "PodTemplateSpec" => &[("metadata", Object("TemplateMeta")), ("spec!", Object("PodSpec"))],
        "TemplateMeta" => &[("labels", LABELS), ("annotations", ANNOTATIONS)],
        "PodSpec" => &[
            ("containers!", List(&Object("Container"))),
            // Jobs accept no other.
            ("restartPolicy!", OneOf(&["Never", "OnFailure"])),
            ("subdomain", Label),
            ("terminationGracePeriodSeconds", Whole(0, i64::MAX)),
            ("securityContext", Object("PodSecurityContext")),
            ("automountServiceAccountToken", Boolean),
            ("affinity", Object("Affinity")),
            ("volumes", List(&Object("Volume"))),
            ("nodeSelector", LABELS),
            ("tolerations", List(&Object("Toleration"))),
            ("priorityClassName", Subdomain),
            ("serviceAccountName", Subdomain),
            ("imagePullSecrets", List(&Object("LocalObjectReference"))),
        ],
        "Toleration" => &[
            ("key", Qualified),
            ("operator", OneOf(&["Equal", "Exists"])),
            ("value", LabelValue),
            ("effect", OneOf(&["NoSchedule", "PreferNoSchedule", "NoExecute"])),
            ("tolerationSeconds", Whole(i64::MIN, i64::MAX)),
        ],
        "PodSecurityContext" => &[
            ("fsGroup", Whole(OF_POD.0, OF_POD.1)),
            ("runAsGroup", Whole(OF_POD.0, OF_POD.1)),
            ("runAsUser", Whole(OF_POD.0, OF_POD.1)),
            ("runAsNonRoot", Boolean),
            ("seccompProfile", Object("SeccompProfile")),
        ],
        "SeccompProfile" => &[("type!", OneOf(&["RuntimeDefault", "Unconfined"]))],
        "LocalObjectReference" => &[("name!", Subdomain)],
        "Container" => &[
            ("name!", Label),
            ("image!", Text),
            ("command", List(&Text)),
            ("env", List(&Object("EnvVar"))),
            ("resources", Object("ResourceRequirements")),
            ("volumeMounts", List(&Object("VolumeMount"))),
            ("securityContext", Object("SecurityContext")),
        ],
        "SecurityContext" => {
            &[("allowPrivilegeEscalation", Boolean), ("capabilities", Object("Capabilities"))]
        }
        "Capabilities" => &[("drop", List(&Text))],
        "EnvVar" => &[("name!", Variable), ("value", Text), ("valueFrom", Object("EnvVarSource"))],
        "EnvVarSource" => &[("fieldRef", Object("ObjectFieldSelector"))],
        "ObjectFieldSelector" => &[(
            "fieldPath!",
            OneOf(&["metadata.name", "metadata.namespace", "spec.nodeName", "status.podIP"]),
        )],
        "ResourceRequirements" => &[("limits", Map(&Qualified, &Quantity))],
        "VolumeMount" => &[("name!", Label), ("mountPath!", Path)],
        "Volume" => &[
            ("name!", Label),
            ("emptyDir", Object("EmptyDirVolumeSource")),
            ("persistentVolumeClaim", Object("PersistentVolumeClaimVolumeSource")),
        ],
        "EmptyDirVolumeSource" => &[("medium", OneOf(&["", "Memory"]))],
        "PersistentVolumeClaimVolumeSource" => &[("claimName!", Subdomain)],
        "Affinity" => &[
            ("nodeAffinity", Object("NodeAffinity")),
            ("podAntiAffinity", Object("PodAntiAffinity")),
        ],
        "PodAntiAffinity" => {
            &[("requiredDuringSchedulingIgnoredDuringExecution", List(&Object("PodAffinityTerm")))]
        }
        "PodAffinityTerm" => {
            &[("topologyKey!", Qualified), ("labelSelector", Object("LabelSelector"))]
        }
        "LabelSelector" => &[("matchLabels", LABELS)],
        "NodeAffinity" => {
            &[("requiredDuringSchedulingIgnoredDuringExecution", Object("NodeSelector"))]
        }
        "NodeSelector" => &[("nodeSelectorTerms!", List(&Object("NodeSelectorTerm")))],
        "NodeSelectorTerm" => &[("matchFields", List(&Object("NodeSelectorRequirement")))],
        "NodeSelectorRequirement" => &[
            // The only field that nodes can be selected by.
            ("key!", Is("metadata.name")),
            ("operator!", OneOf(&["In", "NotIn"])),
            ("values", List(&Subdomain)),
        ],
        "ServiceSpec" => &[
            ("clusterIP", Is("None")),
            ("selector", LABELS),
            ("publishNotReadyAddresses", Boolean),
            ("ports", List(&Object("ServicePort"))),
        ],
        "ServicePort" => &[("name", Label), ("port!", Whole(1, 65_535))],
        other => panic!("{other} has no definition"),
    }
}

/// Returns what is wrong with an object; nothing if the API server accepts it.
pub(crate) fn problems(definition: &'static str, object: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    check(&Object(definition), object, definition, &mut problems);
    problems
}

fn check(expected: &Type, value: &Value, path: &str, problems: &mut Vec<String>) {
    let fits = match expected {
        Object(definition) => return check_object(fields(definition), value, path, problems),
        List(of) => {
            let Some(items) = value.as_array() else {
                return problems.push(format!("{path} is no list: {value}"));
            };
            return items.iter().for_each(|item| check(of, item, &format!("{path}[]"), problems));
        }
        Map(keys, values) => {
            let Some(entries) = value.as_object() else {
                return problems.push(format!("{path} is no map: {value}"));
            };
            for (key, value) in entries {
                check(keys, &Value::String(key.clone()), &format!("{path}: key"), problems);
                check(values, value, &format!("{path}.{key}"), problems);
            }
            return;
        }
        Boolean => value.is_boolean(),
        Whole(least, most) => value.as_i64().is_some_and(|it| (*least..=*most).contains(&it)),
        text => value.as_str().is_some_and(|it| is_text(text, it)),
    };
    if !fits {
        problems.push(format!("{path} cannot be {value}"));
    }
}

fn check_object(fields: Fields, value: &Value, path: &str, problems: &mut Vec<String>) {
    let Some(object) = value.as_object() else {
        return problems.push(format!("{path} is no object: {value}"));
    };
    let name = |field: &&'static str| field.trim_end_matches('!');
    for (key, value) in object {
        match fields.iter().find(|(field, _)| name(field) == key) {
            Some((_, expected)) => check(expected, value, &format!("{path}.{key}"), problems),
            None => problems.push(format!("{path} has no field {key}")),
        }
    }
    let required = fields.iter().map(|(field, _)| field).filter(|field| field.ends_with('!'));
    for field in required.map(name) {
        if !object.contains_key(field) {
            problems.push(format!("{path}.{field} is required"));
        }
    }
}

fn is_text(expected: &Type, text: &str) -> bool {
    match expected {
        Is(only) => text == *only,
        OneOf(known) => known.contains(&text),
        Label => is_label(text),
        Subdomain => text.len() <= 253 && text.split('.').all(is_label),
        LabelValue => text.is_empty() || is_name(text),
        Qualified => match text.split_once('/') {
            Some((prefix, name)) => is_text(&Subdomain, prefix) && is_name(name),
            None => is_name(text),
        },
        Variable => {
            let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
            !text.starts_with(|first: char| first.is_ascii_digit())
                && !text.is_empty()
                && text.chars().all(is_part)
        }
        Quantity => {
            let digits = text.trim_start_matches(|it: char| it.is_ascii_digit() || it == '.');
            let suffixes = ["", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"];
            digits.len() < text.len() && suffixes.contains(&digits)
        }
        Path => !text.is_empty() && !text.contains(':'),
        _ => true,
    }
}

fn is_label(text: &str) -> bool {
    let is_letter = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit();
    (1..=63).contains(&text.len())
        && text.chars().all(|it| is_letter(it) || it == '-')
        && text.starts_with(is_letter)
        && text.ends_with(is_letter)
}

/// The name of a label, and its value.
fn is_name(text: &str) -> bool {
    let is_letter = |it: char| it.is_ascii_alphanumeric();
    (1..=63).contains(&text.len())
        && text.chars().all(|it| is_letter(it) || "-._".contains(it))
        && text.starts_with(is_letter)
        && text.ends_with(is_letter)
}
