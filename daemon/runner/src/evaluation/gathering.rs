//! Collects the results of an evaluation in dataset order.

use prost::Message;
use traind_loader::{GatherInOrder, HostBatch};
use traind_xla::runtime::Fetched;

use super::collected::Collected;
use crate::error::RunResult;
use crate::hosts::Hosts;
use crate::step::{LOSS_DIVISOR, LOSS_SUM, Readout, WEIGHT_SUM, scalar};
use crate::tasks::{BatchShare, LossDivisor, Outputs, RowOutput};

pub(super) struct Gathering {
    readout: Readout,
    labelled: bool,
    share: BatchShare,
    /// The divisor of the losses of a batch.
    divisor: LossDivisor,
    /// Whether rows or classes have weights, by which the loss is a mean over all rows.
    weighted: bool,
    collected: Collected<ShardResult>,
}

/// The results of one data shard of a batch.
#[derive(Clone, PartialEq, Message)]
struct ShardResult {
    #[prost(message, repeated, tag = "1")]
    rows: Vec<RowOutput>,
    #[prost(double, tag = "2")]
    loss_sum: f64,
    #[prost(double, tag = "3")]
    divisor: f64,
    #[prost(double, tag = "4")]
    weight_sum: f64,
    #[prost(double, tag = "5")]
    correct_sum: f64,
}

impl Gathering {
    pub(super) fn new(
        readout: Readout,
        labelled: bool,
        share: BatchShare,
        divisor: LossDivisor,
        weighted: bool,
    ) -> Gathering {
        Gathering { readout, labelled, share, divisor, weighted, collected: Collected::new() }
    }

    /// Adds the results of a batch, of which `fetched` has those of each data shard of this host; `None` where another
    /// host has them.
    pub(super) fn add(&mut self, batch: &HostBatch, fetched: Option<&Fetched>) -> RunResult<()> {
        let shards = 0..batch.cores.len();
        let results = fetched
            .into_iter()
            .flat_map(|fetched| shards.clone().map(|shard| self.result(batch, fetched, shard)));
        let results = results.collect::<RunResult<Vec<_>>>()?;
        self.collected.add(batch, results);
        Ok(())
    }

    fn result(&self, batch: &HostBatch, fetched: &Fetched, shard: usize) -> RunResult<ShardResult> {
        let rows = self.readout.rows(fetched, shard, &batch.cores[shard].spans)?;
        let rows = rows.into_iter().map(RowOutput::from).collect();
        if !self.labelled {
            return Ok(ShardResult { rows, ..ShardResult::default() });
        }
        let sum = |name| scalar(&fetched.per_core(name)?[shard]);
        Ok(ShardResult {
            rows,
            loss_sum: sum(LOSS_SUM)?,
            divisor: sum(LOSS_DIVISOR)?,
            weight_sum: sum(WEIGHT_SUM)?,
            correct_sum: self.readout.correct_sum(fetched, shard)?,
        })
    }

    /// Returns the results of all `rows` on the first host, and none on the others. Fails where a row has
    /// no result.
    pub(super) fn finish(self, hosts: &Hosts, rows: usize) -> RunResult<Outputs> {
        let (mut outputs, mut in_order) = (Outputs::default(), GatherInOrder::new(rows));
        let (labelled, share, weighted) = (self.labelled, self.share, self.weighted);
        let of_batch = self.divisor;
        self.collected.finish(hosts, |plan, shards| {
            let (mut loss_sum, mut divisor, mut weights, mut correct) = (0.0, 0.0, 0.0, 0.0);
            for (shard, result) in shards.into_iter().enumerate() {
                in_order.place(plan, shard, result.rows)?;
                loss_sum += result.loss_sum;
                divisor += result.divisor;
                weights += result.weight_sum;
                correct += result.correct_sum;
            }
            outputs.rows_per_batch = outputs.rows_per_batch.max(plan.rows.len());
            outputs.weight_sum += weights;
            outputs.correct_sum += correct;
            if labelled {
                match weighted {
                    true => outputs.loss.add_weighted(loss_sum, weights),
                    false => {
                        let divisor = of_batch.of(divisor, weights);
                        outputs.loss.add(loss_sum, divisor, share.of(plan.rows.len()));
                    }
                }
                outputs.accuracy.add(correct, weights);
            }
            Ok(())
        })?;
        if hosts.is_first() {
            outputs.rows = in_order.finish()?;
        }
        Ok(outputs)
    }
}
