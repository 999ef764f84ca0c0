//! Events as lines for a terminal, where no daemon shows them.

use traind_proto::v1::event::Kind;
use traind_proto::v1::{Evaluated, Finished, Log, Outcome, Resumed, Saved, Step};
use traind_wording::counted;

/// The line of an event; `None` for those that say little to a person, and for warnings, which are printed
/// in any case.
pub(super) fn line(kind: &Kind) -> Option<String> {
    Some(match kind {
        Kind::Step(Step { step, max_steps, loss, learning_rate, samples_per_second, .. }) => {
            format!(
                "step {step}/{max_steps}: loss {loss:.6}, learning rate {learning_rate:.3e}, \
             {samples_per_second:.1} samples/s"
            )
        }
        Kind::Evaluated(Evaluated { split, step, metrics, .. }) => {
            let metrics = metrics.iter().map(|(name, value)| format!("{name} {value:.6}"));
            format!("{split} after step {step}: {}", metrics.collect::<Vec<_>>().join(", "))
        }
        Kind::Saved(Saved { path, step, .. }) => format!("saved step {step} to {path}"),
        Kind::Resumed(Resumed { path, step }) => format!("resumed after step {step} from {path}"),
        Kind::Log(Log { message, .. }) => message.clone(),
        Kind::Finished(finished @ Finished { steps, seconds, .. }) => {
            let outcome = match finished.outcome() {
                Outcome::Completed => "completed",
                Outcome::Cancelled => "stopped",
                Outcome::Failed | Outcome::Unspecified => "failed",
            };
            format!("{outcome} after {} and {seconds:.0} s", counted(steps, "step"))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_outcomes_are_lines() {
        let step = Step { step: 3, max_steps: 9, loss: 0.5, ..Step::default() };
        let text = line(&Kind::Step(step)).unwrap();
        assert!(text.starts_with("step 3/9: loss 0.500000, "), "{text}");
        let outcome = Outcome::Completed.into();
        let finished = Finished { outcome, steps: 9, seconds: 4.2, ..Finished::default() };
        assert_eq!(line(&Kind::Finished(finished)).unwrap(), "completed after 9 steps and 4 s");
        assert_eq!(line(&Kind::Started(traind_proto::v1::Started::default())), None);
    }
}
