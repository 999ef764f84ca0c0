//! A Kubernetes cluster: a real `kubectl`, an API server of the tests, and pods that are processes.

pub(crate) mod api;
pub(crate) mod objects;
pub(crate) mod schema;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::process::Command;
use traind_proto::v1::Job;

use self::api::Api;
use crate::support::host::{Host, until};

/// The program `kubectl` of this machine; `None` with a message if there is none.
pub(crate) fn kubectl() -> Option<PathBuf> {
    let given = std::env::var_os("TRAIND_TEST_KUBECTL").filter(|path| !path.is_empty());
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = given.map(PathBuf::from).or_else(|| {
        std::env::split_paths(&folders).map(|folder| folder.join("kubectl")).find(|it| it.is_file())
    });
    if found.is_none() {
        eprintln!("skipped: kubectl is not installed");
    }
    found
}

/// A host whose daemon reaches a cluster.
pub(crate) struct Cluster {
    pub host: Host,
    pub api: Api,
    /// The processes of pods, by the names of their jobs.
    processes: Arc<Mutex<Vec<(String, Pid)>>>,
}

impl Cluster {
    pub(crate) async fn start(kubectl: &Path, script: &str) -> Cluster {
        let mut host = Host::new(1, script);
        let (api, folder) = (Api::start().await, host.path("bin"));
        fs::create_dir(&folder).unwrap();
        symlink(kubectl, folder.join("kubectl")).unwrap();
        // The program in the image.
        let runner = folder.join("traind-runner");
        fs::write(&runner, "#!/bin/sh\ncd \"$1\" && exec \"$(dirname \"$0\")/../runner\" \"$1\"\n")
            .unwrap();
        fs::set_permissions(&runner, Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let configuration = host.path("kubeconfig");
        fs::write(&configuration, kubeconfig(&api)).unwrap();
        let home = host.path("home").display().to_string();
        let more =
            [("PATH", path), ("KUBECONFIG", configuration.display().to_string()), ("HOME", home)];
        host.environment.extend(more.map(|(name, value)| (name.to_owned(), value)));
        host.options = vec!["--restart-delay=0".to_owned()];
        host.start().await;
        Cluster { host, api, processes: Arc::default() }
    }

    /// Submits a job on two hosts with these lines besides in its file.
    pub(crate) async fn submit(&self, lines: &str) -> Job {
        self.submit_with("", lines).await
    }

    /// Submits a job with more resources.
    pub(crate) async fn submit_with(&self, resources: &str, lines: &str) -> Job {
        self.submit_as("wide", resources, lines).await
    }

    /// Submits a job of another name.
    pub(crate) async fn submit_as(&self, name: &str, resources: &str, lines: &str) -> Job {
        let mut request = self.host.request(name, 1);
        let resources = format!("{{cores: 4, hosts: 2, engine: kubernetes{resources}}}\n{lines}");
        request.job_file = request.job_file.replace("{cores: 1}", &resources);
        self.host.create(request).await.unwrap()
    }

    /// Waits until the cluster has the Job and the service of an attempt. Returns their name.
    pub(crate) async fn until_created(&self, job: &Job, attempt: u32) -> String {
        let name = format!("traind-{}-{attempt}", job.id);
        let has =
            |objects: &[Value]| objects.iter().any(|it| it["metadata"]["name"] == name.as_str());
        until(&format!("{name} exists\n{}", self.host.log()), || {
            self.api.objects(|objects| has(&objects.jobs) && has(&objects.services))
        })
        .await;
        name
    }

    /// Starts the pods of a Job. The process of the first one stands for all.
    pub(crate) fn run_pods(&self, name: &str) {
        let container = self.api.objects(|objects| {
            objects.place(name);
            objects.job(name).unwrap()["spec"]["template"]["spec"]["containers"][0].clone()
        });
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        // Leads a session, as in a container of its own.
        let mut command = Command::new("setsid");
        command.args(container["command"].as_array().unwrap().iter().map(text));
        for variable in container["env"].as_array().unwrap() {
            command.env(text(&variable["name"]), text(&variable["value"]));
        }
        let path = self.host.environment.iter().find(|(variable, _)| variable == "PATH").unwrap();
        command.env("PATH", &path.1).env("JOB_COMPLETION_INDEX", "0");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let pid = Pid::from_raw(process.id().unwrap().cast_signed()).unwrap();
        self.processes.lock().unwrap().push((name.to_owned(), pid));
        let (api, name, processes) =
            (self.api.clone(), name.to_owned(), Arc::clone(&self.processes));
        tokio::spawn(async move {
            let code = process.wait().await.unwrap().code().unwrap_or(137);
            api.objects(|objects| objects.end(&name, code));
            processes.lock().unwrap().retain(|(_, other)| *other != pid);
        });
    }

    /// Suspends a Job that runs, as Kueue does for another one, and waits for the end of its pods.
    pub(crate) async fn suspend(&self, name: &str) {
        self.api.objects(|objects| objects.suspend(name, true));
        self.terminate(name);
        until(&format!("the pods of {name} have ended"), || {
            self.processes.lock().unwrap().iter().all(|(job, _)| job != name)
        })
        .await;
    }

    /// Sends SIGTERM to the pods of a Job once it is to be deleted, as the hosts of a cluster do.
    pub(crate) async fn terminate_deleted(&self, name: &str) {
        until(&format!("{name} is deleted"), || {
            self.api.objects(|objects| {
                let job = objects.job(name);
                job.is_none_or(|job| job["metadata"]["deletionTimestamp"].is_string())
            })
        })
        .await;
        self.terminate(name);
    }

    fn terminate(&self, name: &str) {
        for (_, pid) in self.processes.lock().unwrap().iter().filter(|(job, _)| job == name) {
            let _ = kill_process(*pid, Signal::TERM);
        }
    }

    /// Lets a runner that waits for it end.
    pub(crate) fn finish(&self, job: &Job) {
        fs::write(self.host.run_dir(&job.id).join("go"), "").unwrap();
    }
}

fn kubeconfig(api: &Api) -> String {
    let server = format!("http://{}", api.address);
    let cluster = format!("{{name: test, cluster: {{server: \"{server}\"}}}}");
    format!(
        "apiVersion: v1\nkind: Config\nclusters: [{cluster}]\nusers: [{{name: test, user: {{}}}}]\n\
         contexts: [{{name: test, context: {{cluster: test, user: test}}}}]\ncurrent-context: test\n"
    )
}
