//! A client's request, before anything but its form is checked.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use traind_proto::v1;

use crate::access::Caller;
use crate::access::account::Account;
use crate::control::error::Error;
use crate::jobs::store::{Job, Parent, Store};

const REQUEST_ID_CHARACTERS_MAX: usize = 128;

/// A client's request, of which only the form has been checked.
#[derive(Clone, Debug)]
pub(crate) struct Submission {
    pub owner: String,
    pub account: Option<Account>,
    /// Empty if every request creates a job.
    pub request_id: String,
    /// YAML.
    pub job_file: String,
    pub base_dir: String,
    /// The values by the paths of their fields.
    pub overrides: BTreeMap<String, String>,
    /// Distinguishes a repeated request from another one with the same id.
    pub digest: Vec<u8>,
    /// The checkpoint of another job that the job file names.
    pub parent: Option<Parent>,
}

impl Submission {
    pub(crate) fn new(request: v1::CreateJobRequest, caller: Caller) -> Result<Submission, Error> {
        let Caller { user: owner, account, .. } = caller;
        let v1::CreateJobRequest { request_id, job_file, base_dir, overrides } = request;
        check_request_id(&request_id)?;
        let overrides: BTreeMap<String, String> = overrides.into_iter().collect();
        let digest = digest([&job_file, &base_dir], &overrides);
        let parent = None;
        Ok(Submission { owner, account, request_id, job_file, base_dir, overrides, digest, parent })
    }
}

/// Refuses an overlong id of a request.
pub(in crate::control) fn check_request_id(request_id: &str) -> Result<(), Error> {
    let length = request_id.chars().count();
    if length > REQUEST_ID_CHARACTERS_MAX {
        let description =
            format!("has {length} characters; at most {REQUEST_ID_CHARACTERS_MAX} are allowed");
        return Err(Error::Request { field: "request_id", description });
    }
    Ok(())
}

/// A digest of everything that a client asked for.
pub(in crate::control) fn digest(
    parts: [&str; 2],
    overrides: &BTreeMap<String, String>,
) -> Vec<u8> {
    let overrides = overrides.iter().flat_map(|(field, value)| [field.as_str(), value.as_str()]);
    let mut digest = Sha256::new();
    for part in parts.into_iter().chain(overrides) {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finalize().to_vec()
}

/// Returns the job that the same request created before. Checked first, since the job's files may
/// have been removed since.
pub(crate) fn repeated(store: &Store, submission: &Submission) -> Result<Option<Job>, Error> {
    if submission.request_id.is_empty() {
        return Ok(None);
    }
    match store.by_request(&submission.owner, &submission.request_id)? {
        None => Ok(None),
        Some((job, digest)) if digest == submission.digest => Ok(Some(job)),
        Some((job, _)) => {
            Err(Error::RequestReused { request_id: submission.request_id.clone(), id: job.id })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_depend_on_where_one_part_ends() {
        let none = BTreeMap::new();
        assert_ne!(digest(["ab", "c"], &none), digest(["a", "bc"], &none));
        assert_eq!(digest(["ab", "c"], &none), digest(["ab", "c"], &none));
    }

    #[test]
    fn an_overlong_request_id_is_refused() {
        let request = v1::CreateJobRequest { request_id: "x".repeat(129), ..Default::default() };
        let error = Submission::new(request, Caller::example()).unwrap_err().to_string();
        assert_eq!(error, "request_id: has 129 characters; at most 128 are allowed");
    }
}
