//! Slurm, through its client programs: `sbatch` submits, `scontrol` and `sacct` report, `scancel` stops.

pub(crate) mod checks;
mod record;
mod script;
mod waiting;

use super::program::{Answer, Call, find as find_program};
use super::{ClusterError, Condition, Report, Submission};
use crate::access::account::Account;

/// Messages of a scheduler that does not answer now, or does not take another job yet.
const UNAVAILABLE: [&str; 7] = [
    "Unable to contact slurm controller",
    "Connection refused",
    "Socket timed out",
    "temporarily unable",
    "Zero Bytes were transmitted",
    "Resource temporarily unavailable",
    "SubmitJob",
];
/// Messages about a job that the controller has forgotten.
const FORGOTTEN: &str = "Invalid job id";

/// Checks that the programs are there.
pub(super) fn check() -> Result<(), ClusterError> {
    for program in ["sbatch", "scontrol", "scancel", "squeue"] {
        find_program(program).ok_or(ClusterError::Missing { program })?;
    }
    Ok(())
}

/// The command and the batch script.
pub(super) fn preview(job: &Submission<'_>) -> String {
    let arguments = script::arguments(job);
    let lines = arguments.iter().map(|it| format!(" \\\n  {}", script::quoted(it)));
    format!("sbatch{} << 'END'\n{}END\n", lines.collect::<String>(), script::text(job))
}

/// Submits a job. Returns its id.
pub(super) async fn submit(job: &Submission<'_>) -> Result<String, ClusterError> {
    let mut call = Call::new("sbatch", job.account);
    call.arguments = script::arguments(job);
    call.environment = job.environment.clone();
    let script = script::text(job);
    call.input = &script;
    let answer = succeed("sbatch", call.run().await?)?;
    // With several clusters: "7;name".
    let id = answer.output.lines().last().unwrap_or_default().split(';').next();
    let id = id.unwrap_or_default().trim();
    match !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Ok(id.to_owned()),
        false => Err(ClusterError::Answer { program: "sbatch", text: answer.output }),
    }
}

/// Finds the job of an attempt by its comment.
pub(super) async fn find(
    job_id: &str,
    attempt: u32,
    account: Option<Account>,
) -> Result<Option<String>, ClusterError> {
    let wanted = script::comment(job_id, attempt);
    let jobs = jobs(account).await?;
    let mut found = jobs.into_iter().filter(|(_, comment)| *comment == wanted);
    Ok(found.next().map(|(id, _)| id))
}

/// Finds the newest attempt of a job by its comment.
pub(super) async fn newest(
    job_id: &str,
    since: u32,
    account: Option<Account>,
) -> Result<Option<String>, ClusterError> {
    let jobs = jobs(account).await?.into_iter();
    let attempts = jobs.filter_map(|(id, comment)| Some((script::attempt(job_id, &comment)?, id)));
    let newest =
        attempts.filter(|(attempt, _)| *attempt >= since).max_by_key(|(attempt, _)| *attempt);
    Ok(newest.map(|(_, id)| id))
}

/// The ids and comments of a user's jobs.
async fn jobs(account: Option<Account>) -> Result<Vec<(String, String)>, ClusterError> {
    let user = account.unwrap_or_else(Account::own).uid;
    let call = Call::new("squeue", account)
        .arg("--noheader")
        .arg("--states=all")
        .arg(format!("--user={user}"))
        .arg("--format=%i|%k");
    let answer = succeed("squeue", call.run().await?)?;
    let jobs = answer.output.lines().filter_map(|line| line.trim().split_once('|'));
    Ok(jobs.map(|(id, comment)| (id.to_owned(), comment.to_owned())).collect())
}

/// Asks for a job's state: of the controller, and of the accounting once that has forgotten it.
pub(super) async fn report(id: &str, account: Option<Account>) -> Result<Report, ClusterError> {
    let call = Call::new("scontrol", account).arg("show").arg("job").arg(id).arg("--oneliner");
    let answer = call.run().await?;
    if answer.success {
        return record::of_controller(id, &answer.output)
            .ok_or(ClusterError::Answer { program: "scontrol", text: answer.output });
    }
    match answer.errors.contains(FORGOTTEN) {
        true => Ok(accounted(id, account).await),
        false => Err(failure("scontrol", answer)),
    }
}

/// The state by the accounting, which not every cluster has.
async fn accounted(id: &str, account: Option<Account>) -> Report {
    let call = Call::new("sacct", account)
        .arg(format!("--jobs={id}"))
        .arg("--allocations")
        .arg("--noheader")
        .arg("--parsable2")
        .arg("--format=State,ExitCode,ElapsedRaw,NodeList");
    let answer = call.run().await.ok().filter(|answer| answer.success);
    let found = answer.and_then(|answer| record::of_accounting(id, &answer.output));
    let unknown = Report { condition: Condition::Unknown, restarts: 0, hosts: String::new() };
    found.unwrap_or(unknown)
}

/// Sends a signal to all runners.
pub(super) async fn signal(
    id: &str,
    signal: &str,
    account: Option<Account>,
) -> Result<(), ClusterError> {
    let call = Call::new("scancel", account).arg(format!("--signal={signal}")).arg(id);
    succeed("scancel", call.run().await?).map(drop)
}

/// Removes a job.
pub(super) async fn remove(id: &str, account: Option<Account>) -> Result<(), ClusterError> {
    let answer = Call::new("scancel", account).arg(id).run().await?;
    match answer.errors.contains(FORGOTTEN) {
        true => Ok(()),
        false => succeed("scancel", answer).map(drop),
    }
}

fn succeed(program: &'static str, answer: Answer) -> Result<Answer, ClusterError> {
    if answer.success { Ok(answer) } else { Err(failure(program, answer)) }
}

fn failure(program: &'static str, answer: Answer) -> ClusterError {
    let text = if answer.errors.is_empty() { answer.output } else { answer.errors };
    let prefixes = [format!("{program}: error: "), format!("{program}: fatal: ")];
    let lines = text.lines().map(|line| {
        prefixes.iter().find_map(|prefix| line.strip_prefix(prefix.as_str())).unwrap_or(line)
    });
    let message = lines.collect::<Vec<_>>().join("; ");
    ClusterError::of_message(program, message, &UNAVAILABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(errors: &str, expect: &str, transient: bool) {
        let answer = Answer { success: false, output: String::new(), errors: errors.to_owned() };
        let error = failure("sbatch", answer);
        assert_eq!((error.to_string().as_str(), error.is_transient()), (expect, transient));
    }

    #[test]
    fn a_busy_scheduler_is_asked_again_and_a_refusal_is_final() {
        check(
            "sbatch: error: invalid partition specified: nope\n\
             sbatch: error: Batch job submission failed: Invalid partition name specified",
            "sbatch refused: invalid partition specified: nope; Batch job submission failed: Invalid \
             partition name specified",
            false,
        );
        check(
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
            "sbatch: Batch job submission failed: Unable to contact slurm controller (connect failure)",
            true,
        );
        check("sbatch: error: AssocMaxSubmitJobLimit", "sbatch: AssocMaxSubmitJobLimit", true);
    }
}
