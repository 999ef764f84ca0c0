//! How preparations of waiting jobs ended.

use traind_proto::v1::{self, event::Kind};

use super::{Job, Store, StoreError};
use crate::jobs::state::JobState;

impl Store {
    /// Stores how the preparation of a job ended. A job that no longer waits gets no event.
    pub(crate) fn record_preparation(&self, id: &str, ended: Kind) -> Result<Job, StoreError> {
        self.edit(id, |draft| match draft.job.state {
            JobState::Pending => draft.append(ended),
            _ => Ok(()),
        })
    }

    /// Stores a warning about a job.
    pub(crate) fn warn(&self, id: &str, code: &str, message: String) -> Result<Job, StoreError> {
        let code = code.to_owned();
        self.edit(id, |draft| draft.append(Kind::Warning(v1::Warning { code, message })))
    }

    /// Stores a warning about a job, unless it is the last that happened to the job: the daemon may have died between
    /// this warning and what it did next.
    pub(crate) fn warn_once(
        &self,
        id: &str,
        code: &str,
        message: String,
    ) -> Result<Job, StoreError> {
        let job = self.get(id)?;
        let last =
            self.events(job.number, job.last_sequence, 1)?.pop().and_then(|event| event.kind);
        match last {
            Some(Kind::Warning(last)) if last.code == code && last.message == message => Ok(job),
            _ => self.warn(id, code, message),
        }
    }
}

#[cfg(test)]
mod tests {
    use traind_proto::v1::Prepared;

    use super::*;
    use crate::jobs::store::NewJob;

    #[test]
    fn only_a_waiting_job_has_the_event() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        store.create(&NewJob { id: "a".into(), ..NewJob::default() }).unwrap();
        let ended = || Kind::Prepared(Prepared { programs: 2, compiled: 1, seconds: 3.0 });
        let waiting = store.record_preparation("a", ended()).unwrap();
        let placed = store.place("a", &[0]).unwrap();
        let later = store.record_preparation("a", ended()).unwrap();
        assert_eq!((waiting.last_sequence, placed.last_sequence), (2, 3));
        assert_eq!(later.last_sequence, 3);
    }

    #[test]
    fn a_warning_is_stored_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        store.create(&NewJob { id: "a".into(), ..NewJob::default() }).unwrap();
        let warn = |message: &str| store.warn_once("a", "RESTORED", message.into()).unwrap();
        let sequences = ["one", "one", "another", "one"].map(|message| warn(message).last_sequence);
        assert_eq!(sequences, [2, 2, 3, 4]);
    }
}
