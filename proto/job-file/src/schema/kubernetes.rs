//! `kubernetes`: options of jobs that Kubernetes places.

use std::path::PathBuf;

use crate::section::section;
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
