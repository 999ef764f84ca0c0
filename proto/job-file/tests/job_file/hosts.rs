//! Jobs over several hosts, and the options of clusters.

use traind_job_file::Engine;

use crate::{check, job};

#[test]
fn the_global_batch_counts_the_cores_of_all_hosts() {
    let of = |resources: &str, rest: &str| {
        job(&format!(
            "resources: {{engine: slurm, {resources}}}\n\
             train: {{per_device_train_batch_size: 2, gradient_accumulation_steps: 3}}\n{rest}"
        ))
    };
    let four = of("hosts: 4, cores: 8", "");
    assert_eq!((four.resources.total_cores(), four.data_parallel_size()), (32, 32));
    assert_eq!((four.host_data_parallel_size(), four.total_train_batch_size()), (8, 2 * 3 * 32));
    let divided = of("hosts: 4, cores: 8", "parallel: {tensor: 2, pipeline: 2}");
    assert_eq!((divided.data_parallel_size(), divided.host_data_parallel_size()), (8, 2));
    let one = of("cores: 8", "");
    assert_eq!((one.resources.hosts, one.total_train_batch_size()), (1, 2 * 3 * 8));
    assert_eq!(job("").resources.engine, Engine::Local);
}

#[test]
fn meshes_that_the_hosts_cannot_form_are_refused_with_the_nearest_one() {
    let of =
        |hosts: &str, parallel: &str| format!("resources: {{{hosts}}}\nparallel: {{{parallel}}}");
    check(
        &of("hosts: 2, cores: 4", "data: 4"),
        "line 2: parallel: data x tensor x pipeline is 4, but resources.hosts x cores is 8; data 8 x \
         tensor 1 x pipeline 1 works",
    );
    check(
        &of("hosts: 2, cores: 4", "tensor: 4, pipeline: 3"),
        "line 2: parallel: tensor x pipeline is 12, which does not divide 8 cores of all hosts; data 1 x \
         tensor 4 x pipeline 2 works",
    );
    check(
        &of("hosts: 2, cores: 4", "tensor: 8"),
        "line 2: parallel: tensor is 8, which does not divide 4 cores of a host, within which layers are \
         shared; data 2 x tensor 4 x pipeline 1 works",
    );
    for platform in ["cpu", "cuda", "neuron"] {
        let hosts = format!("platform: {platform}, hosts: 2, cores: 4");
        check(&of(&hosts, "tensor: 2, pipeline: 2"), "");
        check(&of(&hosts, "tensor: 2, pipeline: 4"), "");
    }
    check(
        "resources: {hosts: 0}",
        "line 1: resources.hosts: must be at least 1 and at most 4096, not 0",
    );
}

/// Each host generates other texts, of another length.
#[test]
fn hosts_share_parameters_with_stages_too_but_not_where_they_generate() {
    let of = |rest: &str| {
        format!(
            "model: {{name_or_path: ./a, task: seq2seq-lm}}\ndata: {{train: a.csv, text: a, target: b}}\n\
             resources: {{hosts: 2, cores: 4}}\n{rest}"
        )
    };
    for fsdp in ["shard_grad_op", "full_shard"] {
        check(&of(&format!("parallel: {{pipeline: 2, fsdp: {fsdp}}}")), "");
    }
    check(
        &of("parallel: {fsdp: full_shard}\ntrain: {predict_with_generate: true}"),
        "line 5: train.predict_with_generate: is not supported with parallel.fsdp: full_shard on several hosts, \
         each of which generates other texts; hybrid_shard keeps the shards within a host",
    );
    check(&of("parallel: {fsdp: shard_grad_op}\ntrain: {predict_with_generate: true}"), "");
}

#[test]
fn stages_are_on_different_hosts_where_one_has_too_few_cores_or_the_placement_says_so() {
    let of = |resources: &str, parallel: &str| {
        let job = job(&format!("resources: {{{resources}}}\nparallel: {{{parallel}}}"));
        let on_host = (job.host_data_parallel_size(), job.host_pipeline_size());
        ((job.data_hosts(), job.pipeline_hosts()), on_host)
    };
    assert_eq!(of("hosts: 2, cores: 2", "pipeline: 2"), ((2, 1), (1, 2)));
    assert_eq!(of("hosts: 2, cores: 2", "pipeline: 4"), ((1, 2), (1, 2)));
    assert_eq!(of("hosts: 4, cores: 2", "pipeline: 4"), ((2, 2), (1, 2)));
    assert_eq!(of("hosts: 4, cores: 4", "pipeline: 4, tensor: 2"), ((2, 2), (1, 2)));
    // Three stages fit no host of two cores evenly.
    assert_eq!(of("hosts: 3, cores: 2", "pipeline: 3"), ((1, 3), (2, 1)));
    assert_eq!(of("hosts: 3, cores: 2", "pipeline: 2"), ((3, 1), (1, 2)));
    for placement in ["PDT", "PTD", "spread"] {
        let parallel = format!("pipeline: 2, placement: {placement}");
        assert_eq!(of("hosts: 2, cores: 2", &parallel), ((1, 2), (2, 1)));
        assert_eq!(of("hosts: 2, cores: 2, platform: cuda", &parallel), ((1, 2), (2, 1)));
    }
    assert_eq!(of("hosts: 4, cores: 2", "pipeline: 2, placement: PDT"), ((2, 2), (2, 1)));
}

#[test]
fn options_of_a_cluster_that_is_not_used_are_warned_about() {
    check(
        "slurm: {partition: gpu}",
        "line 1: slurm: has no effect without `resources.engine: slurm`",
    );
    check(
        "kubernetes: {limits: {memory: 4Gi}}",
        "line 1: kubernetes: has no effect without `resources.engine: kubernetes`",
    );
    check("slurm: {}\nkubernetes: {}", "");
}

#[test]
fn options_of_sbatch_that_other_keys_decide_are_refused() {
    let options =
        |options: &str| format!("resources: {{engine: slurm}}\nslurm:\n  options: [{options}]");
    check(&options("--reservation=night, --exclusive, --mem=0, --bb=capacity"), "");
    check(
        &options("-N4, --nodes=4, --sig=TERM, --part=x"),
        "line 3: slurm.options[0]: must have the form --NAME or --NAME=VALUE, not `-N4`
         line 3: slurm.options[1]: --nodes follows from `resources.hosts`
         line 3: slurm.options[2]: --signal is set by the daemon
         line 3: slurm.options[3]: --partition follows from `slurm.partition`",
    );
    check(
        &options("--comment=traind/of-another/1, --clusters=b, --gid=0, --export-file=/root/keys"),
        "line 3: slurm.options[0]: --comment is set by the daemon
         line 3: slurm.options[1]: --clusters is set by the daemon
         line 3: slurm.options[2]: --gid is set by the daemon
         line 3: slurm.options[3]: --export-file is set by the daemon",
    );
    check(
        &options("--version, --help, --get-user-env, --tasks-per-node=8, --verbose, --hold"),
        "line 3: slurm.options[0]: --version is set by the daemon
         line 3: slurm.options[1]: --help is set by the daemon
         line 3: slurm.options[2]: --get-user-env is set by the daemon
         line 3: slurm.options[3]: --tasks-per-node follows from `resources.hosts`",
    );
}

/// `sbatch` reads them with the daemon's rights, and prints lines of a file that has no hosts.
#[test]
fn files_of_hosts_are_refused() {
    let slurm = |keys: &str| format!("resources: {{engine: slurm}}\nslurm:\n  {keys}");
    check(&slurm("exclude: 'node[1-3],x-7'"), "");
    check(&slurm("options: [--nodelist=n1]"), "");
    let problem = "is a list of hosts, whose names have no slash; files of hosts are not read";
    check(&slurm("exclude: ./hosts"), &format!("line 3: slurm.exclude: {problem}"));
    check(
        &slurm("options: [--nodelist=/etc/shadow, --nodel=a/b, --nodefile=hosts]"),
        &format!(
            "line 3: slurm.options[2]: --nodefile is set by the daemon
             line 3: slurm.options[0]: {problem}
             line 3: slurm.options[1]: {problem}"
        ),
    );
}

/// Neither a program's arguments nor an API server takes them, which a job would find out when it starts.
#[test]
fn words_that_a_cluster_cannot_take_are_refused() {
    check(
        r#"slurm: {partition: "a\0b", options: ["--reservation=a\nb"]}"#,
        "line 1: slurm.partition: must be one line without control characters
         line 1: slurm.options: must be one line without control characters",
    );
    let long = "n".repeat(70_000);
    check(
        &format!("resources: {{engine: slurm}}\nslurm: {{exclude: {long}}}"),
        "line 2: slurm.exclude: is longer than 65536 bytes",
    );
    let kubernetes =
        |keys: &str| format!("resources: {{engine: kubernetes}}\nkubernetes: {{image: a, {keys}}}");
    let long = "a".repeat(300);
    check(
        &kubernetes(&format!(
            r#"service_account: -a, priority_class: "$(id)", image_pull_secret: {long}, node_selector: {{"a b": c}}"#
        )),
        &format!(
            "line 2: kubernetes.image_pull_secret: `{long}` is not the name of an object
             line 2: kubernetes.service_account: `-a` is not the name of an object
             line 2: kubernetes.priority_class: `$(id)` is not the name of an object
             line 2: kubernetes.node_selector.a b: is not the name of a label"
        ),
    );
    check(
        &kubernetes(
            r#"volume_claim: A, mount_path: "/a:b", limits: {"a b": 1}, tolerations: [{key: "a\n", operator: Exists}]"#,
        ),
        "line 2: kubernetes.mount_path: must have no colon and no control characters
         line 2: kubernetes.volume_claim: `A` is not the name of an object
         line 2: kubernetes.limits.a b: is not the name of a resource
         line 2: kubernetes.tolerations[0]: has a `key` that is not the name of a label",
    );
    let note = "x".repeat(300_000);
    check(
        &kubernetes(&format!("annotations: {{a: {note}}}")),
        "line 2: kubernetes.annotations: have 300001 bytes, of 262144",
    );
}

#[test]
fn a_job_for_kubernetes_needs_an_image() {
    let kubernetes =
        |keys: &str| format!("resources: {{engine: kubernetes}}\nkubernetes: {{{keys}}}");
    check(
        &kubernetes(""),
        "line 2: kubernetes.image: is required with `resources.engine: kubernetes`",
    );
    check(
        &kubernetes("image: a, namespace: A_b, volume_claim: v, limits: {cpu: 500m, memory: 4GB}"),
        "line 2: kubernetes.limits.memory: must be a number such as 8, 500m or 512Gi, not `4GB`
         line 2: kubernetes.namespace: `A_b` is not a namespace name
         line 2: kubernetes.mount_path: is required with kubernetes.volume_claim",
    );
    check(
        &kubernetes(
            "image: a, queue: a b, labels: {traind/job: a, kueue.x-k8s.io/queue-name: b, zone: c d}, annotations: {a b: c}",
        ),
        "line 2: kubernetes.queue: `a b` is not the name of a queue
         line 2: kubernetes.labels.zone: `c d` is not the value of a label
         line 2: kubernetes.labels.traind/job: is set by the daemon
         line 2: kubernetes.labels.kueue.x-k8s.io/queue-name: follows from `kubernetes.queue`
         line 2: kubernetes.annotations.a b: is not the name of a label",
    );
    let parsed = job(&kubernetes(
        "image: a, node_selector: {zone: b}, limits: {memory: 4Gi, vpc.amazonaws.com/efa: 8}",
    ));
    let limits: Vec<_> = parsed.kubernetes.limits.iter().map(|(k, v)| (k, v.as_str())).collect();
    assert_eq!(limits, [("memory", "4Gi"), ("vpc.amazonaws.com/efa", "8")]);
}

#[test]
fn tolerations_are_those_that_kubernetes_accepts() {
    let tolerations = |list: &str| {
        format!(
            "resources: {{engine: kubernetes}}\nkubernetes: {{image: a, tolerations: [{list}]}}"
        )
    };
    check(
        &tolerations(
            "{operator: Exists}, {key: a, value: b, effect: NoSchedule}, \
             {key: a, operator: Exists, effect: NoExecute, toleration_seconds: 60}",
        ),
        "",
    );
    check(
        &tolerations("{key: a, effect: Never}, {keys: a, operator: Exists}"),
        "line 2: kubernetes.tolerations[0].effect: must be one of NoSchedule, PreferNoSchedule, NoExecute, not `Never`
         line 2: kubernetes.tolerations[1].keys: is not a known key; did you mean `kubernetes.tolerations[1].key`?",
    );
    check(
        &tolerations("{key: a, operator: Exists, value: b}, {value: b}, {key: a, toleration_seconds: 1}"),
        "line 2: kubernetes.tolerations[0]: has a `value`, which `operator: Exists` does not compare
         line 2: kubernetes.tolerations[1]: needs a `key`, or `operator: Exists` for all taints
         line 2: kubernetes.tolerations[2]: has `toleration_seconds`, which needs `effect: NoExecute`",
    );
}
