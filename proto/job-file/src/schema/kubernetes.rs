//! `kubernetes`: options of jobs that Kubernetes places.

use std::path::PathBuf;

use crate::section::section;
use crate::spelled::spelled;
use crate::values::{Mapping, Quantity};

section! {
    /// Options for jobs scheduled by Kubernetes.
    pub struct Kubernetes {
        /// Namespace of the job's objects.
        namespace: String = "default".to_owned();
        /// Container image with `traind-runner` and the plugin. Required if `resources.engine` is
        /// `kubernetes`.
        image: Option<String> = None;
        /// Secret with the credentials for the image's registry.
        image_pull_secret: Option<String> = None;
        /// Service account of the pods; defaults to the namespace's.
        service_account: Option<String> = None;
        /// Labels that hosts must have.
        node_selector: Mapping<String> = Mapping::default();
        /// Taints of hosts that the pods tolerate, under Kubernetes' names: a list of mappings with
        /// `key`, `operator` (`Equal` or `Exists`), `value`, `effect` (`NoSchedule`,
        /// `PreferNoSchedule` or `NoExecute`) and `toleration_seconds`, such as `{key:
        /// nvidia.com/gpu, operator: Exists, effect: NoSchedule}`.
        tolerations: Vec<Toleration> = Vec::new();
        /// Priority class of the pods. It decides instead of `resources.priority`, which classes of a
        /// cluster have no numbers for.
        priority_class: Option<String> = None;
        /// Kueue's queue in the job's namespace (a `LocalQueue`). The job is created suspended, and
        /// Kueue starts it.
        queue: Option<String> = None;
        /// Additional labels of the job and its pods.
        labels: Mapping<String> = Mapping::default();
        /// Additional annotations of the job and its pods.
        annotations: Mapping<String> = Mapping::default();
        /// Resource limits of each pod, such as `vpc.amazonaws.com/efa: 8` or `memory: 512Gi`. By
        /// default, a pod gets `resources.cores` of `cpu`, `nvidia.com/gpu` or
        /// `aws.amazon.com/neuroncore`.
        limits: Mapping<Quantity> = Mapping::default();
        /// Claim for a volume that the daemon and all pods share, for the run folder, model, data,
        /// output and cache.
        volume_claim: Option<String> = None;
        /// Folder where the volume is mounted, both in the pods and on the daemon's host.
        mount_path: Option<PathBuf> = None;
    }
}

impl Kubernetes {
    /// The label that names a job's queue in Kueue.
    pub const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";
}

section! {
    /// Taints that pods tolerate. What is absent has the meaning that Kubernetes gives it.
    pub struct Toleration {
        /// Key of the taints; all keys if it is absent.
        key: Option<String> = None;
        /// Comparison of the values.
        operator: Option<TolerationOperator> = None;
        /// Value of the taints.
        value: Option<String> = None;
        /// Effect of the taints; all effects if it is absent.
        effect: Option<TaintEffect> = None;
        /// How long pods stay on a host that gets such a taint; forever if it is absent.
        toleration_seconds: Option<u64> = None;
    }
}

spelled! {
    /// A comparison of a taint's value.
    pub enum TolerationOperator {
        /// With `value`; the default.
        Equal = "Equal",
        /// All values.
        Exists = "Exists",
    }
}

spelled! {
    /// The effect of a taint.
    pub enum TaintEffect {
        /// New pods go elsewhere.
        NoSchedule = "NoSchedule",
        /// New pods go elsewhere if they can.
        PreferNoSchedule = "PreferNoSchedule",
        /// Pods that run are evicted too.
        NoExecute = "NoExecute",
    }
}
