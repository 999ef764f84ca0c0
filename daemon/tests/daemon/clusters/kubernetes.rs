//! Jobs that Kubernetes places, with a `kubectl` of a shell script that keeps the objects in a folder.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;
use traind_proto::v1::{Job, JobState};

use crate::support::host::Host;
use crate::support::runner::{STOPS_WHEN_ASKED, WAITS_FOR_GO};

/// Jobs begin when the test writes `pods`, and their state is that of the files `job` and `pods`.
const KUBECTL: &str = r#"
echo "$*" >> "$folder/calls"
case $1 in
create)
    cat > "$folder/new"
    kind=$(sed 's/.*"kind":"\([A-Za-z]*\)","metadata".*/\1/' "$folder/new")
    mv "$folder/new" "$folder/$kind.json"
    echo '{"metadata": {"name": "'"$(sed 's/.*"name":"\(traind-[a-z0-9-]*\)".*/\1/' "$folder/$kind.json")"'", "uid": "u-1"}}'
    [ "$kind" = Job ] || exit 0
    run_dir=$(grep -o '"[^"]*/void-1"' "$folder/Job.json" | tr -d '"'); run_dir=${run_dir%/void-1}
    {
        until [ -e "$folder/pods" ]; do sleep 0.02; done
        cd "$run_dir" || exit 1
        setsid sh -c 'echo $$ > "$0/pid"; exec "$0/../runner" "$1"' "$folder" "$run_dir"
        case $? in 0) end=Complete ;; *) end=Failed ;; esac
        [ -e "$folder/deleted" ] || echo '{"type": "'$end'", "status": "True"}' > "$folder/condition"
        touch "$folder/ended"
    } > /dev/null 2>&1 < /dev/null & ;;
get)
    [ ! -e "$folder/deleted" ] || [ ! -e "$folder/ended" ] || { echo '{"items": []}'; exit 0; }
    condition=$(cat "$folder/condition" 2> /dev/null)
    pods=$(cat "$folder/pods" 2> /dev/null || cat "$folder/pending")
    echo '{"items": [{"kind": "Job", "spec": {"completions": 2}, "status": {"conditions": ['"$condition"']}}, '"$pods"']}' ;;
delete)
    touch "$folder/deleted"
    [ -e "$folder/pid" ] && kill -TERM "$(cat "$folder/pid")" || touch "$folder/ended" ;;
esac"#;

const PENDING: &str = r#"{"kind": "Pod", "status": {"phase": "Pending", "conditions": [
    {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]}}"#;
const RUNNING: &str = r#"{"kind": "Pod", "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}},
    {"kind": "Pod", "spec": {"nodeName": "n2"}, "status": {"phase": "Running"}}"#;

struct Cluster {
    host: Host,
    folder: PathBuf,
}

impl Cluster {
    async fn start(script: &str) -> Cluster {
        let mut host = Host::new(1, script);
        let folder = host.path("kubernetes");
        fs::create_dir(&folder).unwrap();
        let program = folder.join("kubectl");
        fs::write(&program, format!("#!/bin/sh\nfolder={}\n{KUBECTL}\n", folder.display()))
            .unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.join("pending"), PENDING).unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        host.environment.push(("PATH".to_owned(), path));
        host.start().await;
        Cluster { host, folder }
    }

    async fn submit(&self) -> Job {
        let mut request = self.host.request("wide", 1);
        let resources = "{cores: 4, hosts: 2, engine: kubernetes}\nkubernetes: {image: traind}";
        request.job_file = request.job_file.replace("{cores: 1}", resources);
        self.host.create(request).await.unwrap()
    }

    fn run_pods(&self) {
        fs::write(self.folder.join("pods"), RUNNING).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }
}

#[tokio::test]
async fn a_job_and_its_service_are_created_and_followed() {
    let cluster = Cluster::start(WAITS_FOR_GO).await;
    let (host, job) = (&cluster.host, cluster.submit().await);
    let waiting = host.until(&job.id, |job| !job.waiting_reason.is_empty()).await;
    let name = format!("traind-{}-1", job.id);
    let expect = format!("Kubernetes job default/{name} waits: 0/3 nodes are available");
    assert_eq!(waiting.waiting_reason, expect);
    cluster.run_pods();
    let running = host.until(&job.id, |job| !job.host_names.is_empty()).await;
    assert_eq!((running.host_names.as_str(), running.engine.as_str()), ("n1,n2", "kubernetes"));
    fs::write(host.run_dir(&job.id).join("go"), "").unwrap();
    host.until_state(&job.id, JobState::Completed).await;
    let [created, service]: [Value; 2] =
        ["Job.json", "Service.json"].map(|file| serde_json::from_str(&cluster.read(file)).unwrap());
    assert_eq!(created["metadata"]["name"], name.as_str());
    assert_eq!(created["spec"]["completions"], 2);
    assert_eq!(service["metadata"]["ownerReferences"][0]["uid"], "u-1");
}

#[tokio::test]
async fn a_cancelled_job_is_deleted() {
    let cluster = Cluster::start(STOPS_WHEN_ASKED).await;
    let (host, job) = (&cluster.host, cluster.submit().await);
    cluster.run_pods();
    host.until_state(&job.id, JobState::Running).await;
    host.cancel(&job.id).await.unwrap();
    host.until_state(&job.id, JobState::Cancelled).await;
    assert!(cluster.read("calls").contains(&format!("delete job traind-{}-1", job.id)));
}

#[tokio::test]
async fn a_dry_run_shows_what_a_cluster_would_get() {
    let host = Host::new(1, "");
    let show = |resources: &str| {
        let file = host.request("wide", 1).job_file.replace("{cores: 1}", resources);
        fs::write(host.path("job.yaml"), file).unwrap();
        let shown = host.cli(&["submit", "--dry-run", "job.yaml"]);
        String::from_utf8([shown.stdout, shown.stderr].concat()).unwrap()
    };
    let text = show("{cores: 4, hosts: 2, engine: kubernetes}\nkubernetes: {image: traind}");
    for part in ["kind: Job", "---\n", "kind: Service", "completions: 2", "clusterIP: None"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = show("{cores: 4, hosts: 2, engine: slurm}");
    for part in ["sbatch", "'--nodes=2'", "exec srun"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(show("{cores: 4}").contains("traind plan"));
}
