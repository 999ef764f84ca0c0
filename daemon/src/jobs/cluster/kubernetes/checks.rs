//! Checks of `traind doctor --engine kubernetes`.

use super::PROGRAM;
use crate::host::readiness::{Check, Finding};
use crate::jobs::cluster::program::find;

/// Requests that the daemon makes.
const NEEDED: [(&str, &str); 5] = [
    ("create", "jobs.batch"),
    ("get", "jobs.batch"),
    ("delete", "jobs.batch"),
    ("create", "services"),
    ("list", "pods"),
];

/// Checks that this host can create jobs in the namespace of `kubectl`'s context.
pub(crate) async fn checks() -> Vec<Check> {
    let Some(path) = find(PROGRAM) else {
        let found = "not on the PATH; kubectl creates, watches and deletes jobs".to_owned();
        let remedy = "install kubectl".to_owned();
        return vec![Check { name: PROGRAM, finding: Finding::Missing { found, remedy } }];
    };
    let finding = Finding::Present(path.display().to_string());
    let mut checks = vec![Check { name: PROGRAM, finding }];
    for (verb, resource) in NEEDED {
        checks.push(Check { name: resource, finding: right(verb, resource).await });
    }
    checks
}

async fn right(verb: &str, resource: &str) -> Finding {
    match super::call().arg("auth").arg("can-i").arg(verb).arg(resource).run().await {
        Ok(answer) if answer.output == "yes" => Finding::Present(format!("may {verb}")),
        Ok(answer) if answer.output == "no" => Finding::Missing {
            found: format!("may not {verb}"),
            remedy: "grant the role of scripts/kubernetes/rbac.yaml".to_owned(),
        },
        Ok(answer) => unreachable_server(answer.errors),
        Err(error) => unreachable_server(error.to_string()),
    }
}

fn unreachable_server(found: String) -> Finding {
    let remedy = "check the context of kubectl (KUBECONFIG) and the network".to_owned();
    Finding::Missing { found, remedy }
}
