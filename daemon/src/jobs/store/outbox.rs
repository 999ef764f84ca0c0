//! Notifications that are still to be delivered. They are stored with the change of state that they
//! report, so that none is lost when the daemon ends.

use std::time::Duration;

use rusqlite::{Connection, Row, params};
use serde_json::json;
use traind_proto::v1;

use super::job::{Job, optional, parsed, to_json};
use super::{Store, StoreError};
use crate::access::account::Account;
use crate::clock;
use crate::jobs::state::JobState;
use crate::notification::{Receiver, Way};

/// The longest pause between two attempts.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(600);

/// A notification that is due.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub id: i64,
    pub way: Way,
    /// The account that it is delivered with; `None` for the daemon's own.
    pub account: Option<Account>,
    /// The user whose job file names the receiver; `None` for the operator's receivers.
    pub user: Option<String>,
    /// The id of the job.
    pub job: String,
    /// The name of the state that the job entered.
    pub state: String,
    /// JSON.
    pub body: String,
    /// Failed attempts.
    pub attempts: u32,
    /// When the state changed, in microseconds since 1970.
    pub create_time: i64,
}

impl Store {
    /// Sets the receivers that the operator named, which hear of all jobs.
    pub(crate) fn set_operators_receivers(&self, receivers: Vec<Receiver>) {
        // Only the first call counts, as the daemon opens.
        let _ = self.inner.receivers.set(receivers);
    }

    /// Returns the notifications that are due at `time`, oldest first, and when the next one will be. Those of `busy`
    /// users, and of the operator if that has `None`, are left out. A pause beyond the longest one was measured by a
    /// clock that has since been set back, and does not count.
    pub(crate) fn due(
        &self,
        time: i64,
        most: usize,
        busy: &[Option<String>],
    ) -> Result<(Vec<Delivery>, Option<i64>), StoreError> {
        let sql = "SELECT notifications.id, receiver, body, notified, attempts,
                notifications.create_time, jobs.id AS job_id, jobs.run_as AS run_as, jobs.owner AS owner
            FROM notifications JOIN jobs ON jobs.number = notifications.job
            WHERE (notifications.not_before <= ?1 OR notifications.not_before > ?4) AND NOT EXISTS (
                SELECT 1 FROM json_each(?3) AS busy WHERE busy.value IS
                    iif(json_extract(receiver, '$.is_operators'), NULL, jobs.owner))
            ORDER BY notifications.id LIMIT ?2";
        let read = || {
            let reader = self.reader();
            let mut statement = reader.prepare_cached(sql)?;
            let latest = time.saturating_add(PAUSE_MAX.as_micros() as i64);
            let values = params![time, most, json!(busy).to_string(), latest];
            let due = statement.query_map(values, delivery)?.collect::<Result<_, _>>()?;
            let sql = "SELECT min(not_before) FROM notifications WHERE not_before > ?1";
            Ok((due, reader.query_row(sql, [time], |row| row.get(0))?))
        };
        read().map_err(StoreError::sqlite("read notifications"))
    }

    /// Forgets a notification, which was delivered or given up.
    pub(crate) fn delivered(&self, id: i64) -> Result<(), StoreError> {
        let forget = self.writer().execute("DELETE FROM notifications WHERE id = ?1", [id]);
        forget.map(drop).map_err(StoreError::sqlite("forget a notification"))
    }

    /// Notes a failed attempt, and when the next one is due.
    pub(crate) fn undelivered(&self, id: i64, not_before: i64) -> Result<(), StoreError> {
        let sql = "UPDATE notifications SET attempts = attempts + 1, not_before = ?2 WHERE id = ?1";
        let update = self.writer().execute(sql, params![id, not_before]);
        update.map(drop).map_err(StoreError::sqlite("put off a notification"))
    }

    /// Waits until a notification may have been stored.
    pub(crate) async fn notified(&self) {
        self.inner.outbox.notified().await;
    }
}

/// Stores the notifications of a change of state.
pub(super) fn store(
    connection: &Connection,
    operators: &[Receiver],
    job: &Job,
    from: Option<JobState>,
    reason: &str,
) -> Result<usize, StoreError> {
    let state = job.state.name();
    let receivers: Vec<&Receiver> = job
        .receivers
        .iter()
        .chain(operators)
        .filter(|receiver| receiver.states.iter().any(|wanted| wanted == state))
        .collect();
    let insert = || {
        let time = clock::now();
        let body = body(job, from, reason, time).to_string();
        let sql =
            "INSERT INTO notifications (job, receiver, notified, body, create_time, not_before)
            VALUES (?1, ?2, ?3, ?4, ?5, ?5)";
        for receiver in &receivers {
            let receiver = to_json(receiver)?;
            let values = params![job.number, receiver, state, body, time];
            connection.prepare_cached(sql)?.execute(values)?;
        }
        Ok(receivers.len())
    };
    insert().map_err(StoreError::sqlite("store a notification"))
}

/// The JSON of a notification. `text` makes it a message of chat services.
fn body(job: &Job, from: Option<JobState>, reason: &str, time: i64) -> serde_json::Value {
    let state = job.state.name();
    let failure = job
        .failure
        .as_ref()
        .map(|failure: &v1::Failure| json!({"reason": failure.reason, "message": failure.message}));
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    json!({
        "text": format!("job {} ({}) is {state}{because}", job.name, job.id),
        "time": time / 1_000_000,
        "from": from.map(JobState::name),
        "state": state,
        "reason": reason,
        "job": {
            "id": job.id,
            "name": job.name,
            "owner": job.owner,
            "attempt": job.attempt,
            "output_dir": job.output_dir,
            "metrics": job.metrics,
            "failure": failure,
        },
    })
}

fn delivery(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    let receiver: Receiver = parsed(row, "receiver", |text| serde_json::from_str(text))?;
    let (account, owner) = (optional(row, "run_as")?, row.get("owner")?);
    let is_users = !receiver.is_operators;
    Ok(Delivery {
        id: row.get("id")?,
        way: receiver.way,
        account: account.filter(|_| is_users),
        user: is_users.then_some(owner),
        job: row.get("job_id")?,
        state: row.get("notified")?,
        body: row.get("body")?,
        attempts: row.get("attempts")?,
        create_time: row.get("create_time")?,
    })
}
