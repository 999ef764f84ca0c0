//! The order in which a run needs its programs.

use traind_loader::BatchSizes;

use crate::progress::Timetable;
use crate::step::{ProgramShape, StepPrograms};

/// Everything that the order depends on.
pub(super) struct FirstUses<'a> {
    pub timetable: &'a Timetable,
    pub step_programs: StepPrograms,
    /// The steps of earlier attempts.
    pub done: u64,
    pub eval_on_start: bool,
    /// The first batch of each size.
    pub batches: Vec<(u64, BatchSizes)>,
    pub validation: Vec<ProgramShape>,
    pub test: Vec<ProgramShape>,
}

impl FirstUses<'_> {
    /// The programs in the order of their first use. Those of both evaluations may occur twice.
    pub(super) fn programs(self) -> Vec<ProgramShape> {
        let before = |steps| self.timetable.batches_before(steps);
        let update = match self.step_programs {
            StepPrograms::Accumulated if !self.batches.is_empty() => Some(ProgramShape::update()),
            _ => None,
        };
        let update = update.map(|update| (before(self.done + 1), update));
        let evaluation = before(self.first_evaluation());
        let validation = self.validation.into_iter().map(|shape| (evaluation, shape));
        let program = self.step_programs.batch_program();
        let batches = self
            .batches
            .into_iter()
            .map(|(batch, sizes)| (batch, ProgramShape::of_batch(program, sizes)));
        // By the batch that comes after the use, or is the use itself.
        let mut uses: Vec<_> = update.into_iter().chain(validation).chain(batches).collect();
        uses.sort_by_key(|(batch, _)| *batch);
        uses.into_iter().map(|(_, shape)| shape).chain(self.test).collect()
    }

    /// The steps before the first evaluation.
    fn first_evaluation(&self) -> u64 {
        match self.eval_on_start && self.done == 0 {
            true => 0,
            false => self.timetable.next_evaluation(self.done + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use traind_job_file::JobFile;
    use traind_loader::BatchAxis;

    use super::*;
    use crate::step::Program;

    fn sizes(length: u32) -> BatchSizes {
        BatchSizes::of_rows(4).with(BatchAxis::Positions, length)
    }

    /// The order in a job of eight batches an epoch, of which some are the first of a length.
    fn check(train: &str, done: u64, batches: &[(u64, u32)], expect: &[&str]) {
        let yaml = format!(
            "{{name: a, model: {{name_or_path: ./a, task: sequence-classification, num_labels: 2}}, \
             data: {{train: a.csv, validation: b.csv}}, output_dir: out, train: {{{train}}}}}"
        );
        let train = JobFile::parse(&yaml, Path::new("/")).unwrap().job.train;
        let evaluation = |program, length| vec![ProgramShape::of_batch(program, sizes(length))];
        let programs = FirstUses {
            timetable: &Timetable::new(&train, 8).unwrap(),
            step_programs: match train.gradient_accumulation_steps {
                1 => StepPrograms::Fused,
                _ => StepPrograms::Accumulated,
            },
            done,
            eval_on_start: train.eval_on_start,
            batches: batches.iter().map(|(batch, length)| (*batch, sizes(*length))).collect(),
            validation: evaluation(Program::Evaluate, 64),
            test: evaluation(Program::Predict, 48),
        };
        let keys: Vec<String> = programs.programs().iter().map(ProgramShape::key).collect();
        assert_eq!(keys, expect);
    }

    #[test]
    fn evaluations_come_between_the_steps_around_them() {
        let batches = [(0, 16), (1, 8), (2, 32), (9, 24)];
        let [first, second, third, last] =
            ["train_step-4x16", "train_step-4x8", "train_step-4x32", "train_step-4x24"];
        let (evaluation, test) = ("eval_step-4x64", "predict_step-4x48");
        let by_steps = "num_train_epochs: 2, eval_strategy: steps, eval_steps: 2";
        check(by_steps, 0, &batches, &[first, second, evaluation, third, last, test]);
        let by_epoch = "num_train_epochs: 2, eval_strategy: epoch";
        check(by_epoch, 0, &batches, &[first, second, third, evaluation, last, test]);
        let at_the_end = "num_train_epochs: 2, eval_strategy: 'no'";
        check(at_the_end, 0, &batches, &[first, second, third, last, evaluation, test]);
        let delayed = "num_train_epochs: 2, eval_strategy: steps, eval_steps: 2, eval_delay: 3";
        check(delayed, 0, &batches, &[first, second, third, evaluation, last, test]);
        let on_start = "num_train_epochs: 2, eval_strategy: epoch, eval_on_start: true";
        check(on_start, 0, &batches, &[evaluation, first, second, third, last, test]);
    }

    #[test]
    fn a_resumed_run_needs_what_follows() {
        let (left, evaluation, test) = ("train_step-4x24", "eval_step-4x64", "predict_step-4x48");
        let train = "num_train_epochs: 2, eval_strategy: steps, eval_steps: 2, eval_on_start: true";
        check(train, 8, &[(8, 24)], &[left, evaluation, test]);
        check(train, 16, &[], &[evaluation, test]);
    }

    #[test]
    fn an_update_follows_the_batches_of_the_first_step() {
        let batches = [(0, 16), (1, 8), (2, 32)];
        let train = "num_train_epochs: 1, gradient_accumulation_steps: 2, eval_strategy: steps, \
                     eval_steps: 1";
        let expect = [
            "accumulate_step-4x16",
            "accumulate_step-4x8",
            "update_step-0",
            "eval_step-4x64",
            "accumulate_step-4x32",
            "predict_step-4x48",
        ];
        check(train, 0, &batches, &expect);
    }

    #[test]
    fn a_run_without_steps_only_evaluates() {
        check("do_train: false, do_eval: true", 0, &[], &["eval_step-4x64", "predict_step-4x48"]);
    }
}
