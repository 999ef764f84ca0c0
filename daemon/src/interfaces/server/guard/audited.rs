//! Writes a line of the audit log for each call that may change something, whatever becomes of it.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use tonic::{Code, Request};

use crate::access::Caller;
use crate::access::audit::Event;
use crate::control::daemon::Daemon;
use crate::interfaces::server::connections::connection::Peer;

/// Details of a call that only its service knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note(Arc<Mutex<(String, String)>>);

impl Note {
    /// Notes the id of the client's request.
    pub(crate) fn request_id(&self, id: &str) {
        id.clone_into(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).0);
    }

    /// Notes the job, token or user that the call is about.
    pub(crate) fn subject(&self, subject: &str) {
        subject.clone_into(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).1);
    }
}

/// Returns the note of a call, which its service fills in.
pub(crate) fn note<T>(request: &Request<T>) -> Note {
    request.extensions().get::<Note>().cloned().unwrap_or_default()
}

/// A call that is audited. If it is dropped without an outcome, the caller has left; the change may have
/// been made.
pub(super) struct Audited {
    daemon: Arc<Daemon>,
    event: Option<Event>,
    pub(super) note: Note,
}

impl Audited {
    pub(super) fn new(daemon: Arc<Daemon>, peer: &Peer, call: &str) -> Audited {
        let origin = match peer {
            Peer::User(account) => format!("socket, uid {}", account.uid),
            Peer::Network { name: Some(name) } => format!("network, certificate of {name}"),
            Peer::Network { name: None } => "network".to_owned(),
        };
        let event = Event { call: call.to_owned(), origin, ..Event::default() };
        Audited { daemon, event: Some(event), note: Note::default() }
    }

    pub(super) fn user(&mut self, user: &str, token: Option<&str>) {
        let Some(event) = &mut self.event else { return };
        user.clone_into(&mut event.user);
        token.unwrap_or_default().clone_into(&mut event.token);
    }

    pub(super) fn caller(&mut self, caller: &Caller) {
        self.user(&caller.user, caller.token.as_deref());
        if let Some(event) = &mut self.event {
            event.role = caller.role().to_string();
        }
    }

    /// Writes the line of a call that was answered.
    pub(super) async fn answered(mut self, code: Code) {
        if let Some(write) = self.writing(format!("{code:?}")) {
            // A panic was reported.
            let _ = tokio::task::spawn_blocking(write).await;
        }
    }

    fn writing(&mut self, outcome: String) -> Option<impl FnOnce() + Send + 'static> {
        let event = self.event.take()?;
        let note = &mut *self.note.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (request_id, subject) = mem::take(note);
        let (daemon, event) =
            (self.daemon.clone(), Event { request_id, subject, outcome, ..event });
        Some(move || daemon.audit(event))
    }
}

impl Drop for Audited {
    fn drop(&mut self) {
        if let Some(write) = self.writing("the caller left".to_owned()) {
            tokio::task::spawn_blocking(write);
        }
    }
}
