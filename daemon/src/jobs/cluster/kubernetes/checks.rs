//! Checks of `traind doctor --engine kubernetes`.

use serde_json::json;

use super::{PROGRAM, create};
use crate::host::readiness::{Check, Finding};
use crate::jobs::cluster::program::find;

/// Requests that the daemon makes: verb, group and resource.
const NEEDED: [(&str, &str, &str); 5] = [
    ("create", "batch", "jobs"),
    ("get", "batch", "jobs"),
    ("delete", "batch", "jobs"),
    ("create", "", "services"),
    ("list", "", "pods"),
];
/// Tells a user its own rights; every user may ask.
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Checks that this host can create jobs in a namespace.
pub(crate) async fn checks(namespace: &str) -> Vec<Check> {
    let Some(path) = find(PROGRAM) else {
        let found = "not on the PATH; kubectl creates, watches and deletes jobs".to_owned();
        let remedy = "install kubectl".to_owned();
        return vec![Check { name: PROGRAM, finding: Finding::Missing { found, remedy } }];
    };
    let finding = Finding::Present(path.display().to_string());
    let mut checks = vec![Check { name: PROGRAM, finding }];
    for (verb, group, resource) in NEEDED {
        let finding = right(namespace, verb, group, resource).await;
        checks.push(Check { name: resource, finding });
    }
    checks
}

async fn right(namespace: &str, verb: &str, group: &str, resource: &str) -> Finding {
    let asked = json!({"namespace": namespace, "verb": verb, "group": group, "resource": resource});
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    });
    match create(REVIEWS, &review).await {
        Ok(Ok(answer)) if answer["status"]["allowed"] == true => {
            Finding::Present(format!("may {verb} in namespace {namespace}"))
        }
        Ok(Ok(_)) => Finding::Missing {
            found: format!("may not {verb} in namespace {namespace}"),
            remedy: "grant the role of scripts/kubernetes/rbac.yaml".to_owned(),
        },
        Ok(Err(problem)) => unreachable_server(problem.into_error().to_string()),
        Err(error) => unreachable_server(error.to_string()),
    }
}

fn unreachable_server(found: String) -> Finding {
    let remedy = "check the context of kubectl (KUBECONFIG) and the network".to_owned();
    Finding::Missing { found, remedy }
}
