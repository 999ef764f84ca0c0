//! Watches the loss scale of `fp16`.

use traind_proto::v1::LossScaled;
use traind_proto::v1::event::Kind;

use crate::error::{RunError, RunResult};
use crate::progress::Progress;
use crate::reporting::Journal;
use crate::session::LossScaleResult;

/// Gradients that are not finite at this scale never are.
const SCALE_MIN: f32 = 1e-6;

/// Counts a skipped update and records a change of the scale. Fails where the scale is too small.
pub(super) fn observe(
    progress: &mut Progress,
    journal: &Journal,
    step: u64,
    result: LossScaleResult,
) -> RunResult<()> {
    let LossScaleResult { scale, updated } = result;
    progress.totals.skipped_steps += u64::from(!updated);
    if updated && progress.loss_scale == Some(scale) {
        return Ok(());
    }
    let is_first = progress.loss_scale.replace(scale).is_none();
    if !(is_first && updated) {
        journal.record(Kind::LossScaled(LossScaled {
            step,
            scale: f64::from(scale),
            skipped_steps: progress.totals.skipped_steps,
        }))?;
    }
    if scale < SCALE_MIN {
        let advice = "no loss scale makes the gradients finite; lower learning_rate or use bf16";
        let value = f64::from(scale);
        return Err(RunError::NotFinite { quantity: "loss scale", step, value, advice });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use traind_proto::event_log::EventLogReader;

    use super::*;

    /// Observes `results` and returns the recorded scales with the steps skipped so far.
    fn recorded(progress: &mut Progress, results: &[(f32, bool)]) -> RunResult<Vec<(f64, u64)>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.log");
        let journal = Journal::open(&path).unwrap();
        for (step, (scale, updated)) in (1..).zip(results) {
            let result = LossScaleResult { scale: *scale, updated: *updated };
            observe(progress, &journal, step, result)?;
        }
        let events = EventLogReader::open(&path).unwrap().read_from(0).unwrap();
        let scales = events.into_iter().filter_map(|logged| match logged.event.kind {
            Some(Kind::LossScaled(event)) => Some((event.scale, event.skipped_steps)),
            _ => None,
        });
        Ok(scales.collect())
    }

    #[test]
    fn changes_are_recorded_and_skipped_updates_counted() {
        let mut progress = Progress::default();
        let results = [(8.0, true), (8.0, true), (4.0, false), (4.0, true), (8.0, true)];
        let events = recorded(&mut progress, &results).unwrap();
        assert_eq!(events, [(4.0, 1), (8.0, 1)]);
        assert_eq!((progress.loss_scale, progress.totals.skipped_steps), (Some(8.0), 1));
    }

    #[test]
    fn a_first_step_that_is_skipped_is_recorded() {
        assert_eq!(recorded(&mut Progress::default(), &[(4.0, false)]).unwrap(), [(4.0, 1)]);
    }

    #[test]
    fn a_scale_without_finite_gradients_ends_the_run() {
        let error = recorded(&mut Progress::default(), &[(1e-7, false)]).unwrap_err();
        assert!(error.to_string().contains("use bf16"), "{error}");
    }
}
