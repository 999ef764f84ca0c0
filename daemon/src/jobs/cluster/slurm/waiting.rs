//! Slurm's reasons in words.

/// Reasons for which jobs wait. Those that end with a limit's name have a row for their beginning.
const REASONS: &[(&str, &str)] = &[
    ("None", "Slurm has not looked at it yet"),
    ("Resources", "its hosts are not free yet"),
    ("Priority", "jobs of higher priority come first"),
    ("Dependency", "it depends on another job of Slurm"),
    (
        "BeginTime",
        "its time to begin has not come; Slurm delays a job that it requeued by two minutes",
    ),
    ("JobHeldAdmin", "an administrator holds it; `scontrol release` releases it"),
    ("JobHeldUser", "it is held; `scontrol release` releases it"),
    ("ReqNodeNotAvail", "hosts that it needs are not available"),
    ("NodeDown", "a host that it needs is down"),
    ("PartitionDown", "its partition takes no jobs"),
    ("PartitionInactive", "its partition starts no jobs"),
    ("PartitionNodeLimit", "its partition has fewer hosts, or permits fewer to a job"),
    (
        "PartitionTimeLimit",
        "it may run longer than its partition permits; resources.max_run_seconds limits it",
    ),
    ("PartitionConfig", "its partition has no such hosts"),
    ("BadConstraints", "no hosts have what it asks for"),
    ("Reservation", "its reservation has not begun"),
    ("Licenses", "a license is not free"),
    ("InvalidAccount", "its account is not valid"),
    ("InvalidQOS", "its quality of service is not valid"),
    ("AccountNotAllowed", "its account may not use the partition"),
    ("QOSNotAllowed", "its quality of service may not use the partition or account"),
    ("AssocGrp", "its account is at a limit"),
    ("AssocMax", "it exceeds a limit of its account"),
    ("QOSGrp", "its quality of service is at a limit"),
    ("QOSMax", "it exceeds a limit of its quality of service"),
    ("QOSMin", "it is below a limit of its quality of service"),
    ("QOSUsageThreshold", "its quality of service has used its share"),
    ("BurstBuffer", "its files are being staged"),
    ("FrontEndDown", "Slurm's front end is down"),
    (
        "launch_failed_requeued_held",
        "it could not be started and is held; `scontrol release` releases it",
    ),
    ("Prolog", "its hosts are being prepared"),
    ("SystemFailure", "a part of Slurm failed"),
    ("Cleaning", "its last run is being cleaned up"),
];

/// Describes a reason, with what Slurm adds to it. Returns an unknown one as Slurm writes it.
pub(super) fn describe(reason: &str) -> String {
    let reason = reason.trim_matches(['(', ')']);
    let (name, more) = reason.split_once(',').unwrap_or((reason, ""));
    let exact = REASONS.iter().find(|(known, _)| *known == name);
    let limit = REASONS.iter().filter(|(known, _)| {
        known.ends_with("Grp") || known.starts_with("QOSM") || known.ends_with("Max")
    });
    let beginning = || limit.clone().find(|(known, _)| name.starts_with(known));
    let Some((known, words)) = exact.or_else(beginning) else {
        return reason.replace('_', " ").trim().to_owned();
    };
    let more = more.replace('_', " ");
    match (*known == name, more.trim()) {
        (true, "") => (*words).to_owned(),
        (true, more) => format!("{words} ({more})"),
        (false, _) => format!("{words} ({name})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_name_themselves() {
        assert_eq!(describe("(Resources)"), "its hosts are not free yet");
        assert_eq!(describe("AssocGrpCpuLimit"), "its account is at a limit (AssocGrpCpuLimit)");
        assert_eq!(
            describe("QOSMaxJobsPerUserLimit"),
            "it exceeds a limit of its quality of service (QOSMaxJobsPerUserLimit)"
        );
    }
}
