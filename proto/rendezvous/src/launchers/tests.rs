use super::*;

/// The placement that `variables`, separated by spaces, give.
fn placement(variables: &str) -> Result<Option<Placement>, LaunchError> {
    let variables: Vec<(&str, &str)> =
        variables.split_whitespace().filter_map(|pair| pair.split_once('=')).collect();
    let find = |name: &str| variables.iter().find(|(key, _)| *key == name);
    Placement::of(&|name| find(name).map(|(_, value)| (*value).to_owned()))
}

/// `expect` is "LAUNCHER RANK SIZE COORDINATOR", or empty.
#[track_caller]
fn check(variables: &str, expect: &str) {
    let found = placement(variables).unwrap();
    let text = found.map(|it| {
        let coordinator = it.coordinator.map_or("-".to_owned(), |address| address.to_string());
        format!("{} {} {} {coordinator}", it.launcher, it.rank, it.size)
    });
    assert_eq!(text.unwrap_or_default(), expect, "{variables}");
}

#[track_caller]
fn check_refused(variables: &str, expect: &str) {
    let error = placement(variables).unwrap_err().to_string();
    assert!(error.contains(expect), "{variables}: {error}");
}

#[test]
fn each_launcher_gives_rank_size_and_coordinator() {
    check("", "");
    check("PATH=/bin HOSTNAME=a TRAIND_HOSTS=4", "");
    check("TRAIND_HOST_RANK=1 TRAIND_HOSTS=2 TRAIND_COORDINATOR=a:80", "traind 1 2 a:80");
    check("TRAIND_HOST_RANK=0 TRAIND_HOSTS=2 TRAIND_COORDINATOR=[::1]:80", "traind 0 2 [::1]:80");
    check("TRAIND_HOST_RANK=1 TRAIND_HOSTS=2", "traind 1 2 -");
    check("OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4", "Open MPI 3 4 -");
    check("PMI_RANK=3 PMI_SIZE=4 PMI_FD=7", "MPICH 3 4 -");
    check(
        "LWS_LEADER_ADDRESS=l.s.ns LWS_GROUP_SIZE=2 LWS_WORKER_INDEX=1",
        "LeaderWorkerSet 1 2 l.s.ns:7733",
    );
    check(
        "PET_NNODES=3 PET_NODE_RANK=2 PET_MASTER_ADDR=j-node-0-0.j PET_MASTER_PORT=29500",
        "Kubeflow 2 3 j-node-0-0.j:29500",
    );
    check(
        "RANK=1 WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=29400 LOCAL_RANK=0",
        "torchrun 1 2 10.0.0.1:29400",
    );
}

#[test]
fn slurm_names_the_first_node_and_a_port_of_the_step() {
    let step = "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=0";
    check(
        &format!("{step} SLURM_STEP_NODELIST=n[1-2] SLURM_JOB_ID=4711 SLURM_STEP_ID=0"),
        "Slurm 1 2 n1:24711",
    );
    check(&format!("{step} SLURM_STEP_NODELIST=b,a SLURM_JOB_ID=12000"), "Slurm 1 2 b:20000");
    // The script of a batch is no task.
    check("SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_JOB_NODELIST=n[1-2]", "");
    check_refused(&format!("{step} SLURM_STEP_NODELIST=n["), "SLURM_STEP_NODELIST");
}

#[test]
fn pods_find_the_first_of_their_job() {
    let pod = "JOB_COMPLETION_INDEX=3 TRAIND_HOSTS=4 TRAIND_SUBDOMAIN=tweets";
    check(
        &format!("{pod} HOSTNAME=tweets-workers-0-3"),
        "Kubernetes 3 4 tweets-workers-0-0.tweets:7733",
    );
    check(&format!("{pod} TRAIND_COORDINATOR=x:1 HOSTNAME=tweets-3"), "Kubernetes 3 4 x:1");
    check_refused(&format!("{pod} HOSTNAME=other"), "HOSTNAME is \"other\"");
}

#[test]
fn the_innermost_of_nested_launchers_counts() {
    let slurm = "SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_NODELIST=n1 SLURM_JOB_ID=1";
    check(&format!("{slurm} OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4"), "Open MPI 1 4 -");
    // `srun --mpi=pmi2` sets both.
    check(&format!("{slurm} PMI_RANK=0 PMI_SIZE=2"), "MPICH 0 2 n1:20001");
    check(&format!("{slurm} TRAIND_HOST_RANK=1 TRAIND_HOSTS=3"), "traind 1 3 -");
}

#[test]
fn variables_that_cannot_be_used_are_named() {
    check_refused("TRAIND_HOST_RANK=a TRAIND_HOSTS=2", "TRAIND_HOST_RANK is \"a\"");
    check_refused("TRAIND_HOST_RANK=2 TRAIND_HOSTS=2", "host 2 of 2");
    check_refused("TRAIND_HOST_RANK=0", "TRAIND_HOSTS is missing");
    check_refused("TRAIND_HOST_RANK=0 TRAIND_HOSTS=2 TRAIND_COORDINATOR=a", "HOST:PORT");
    check_refused("PET_NNODES=1:4 PET_NODE_RANK=0 PET_MASTER_ADDR=a", "PET_NNODES is \"1:4\"");
}
