//! The results of an evaluation's shards, brought together on the first host.

use prost::Message;
use traind_loader::{BatchPlan, HostBatch};

use crate::error::{RunError, RunResult};
use crate::hosts::Hosts;

/// The channel on which hosts send their results.
const RESULTS: &str = "results";

/// The results `T` of this host's shards, batch by batch.
pub(super) struct Collected<T> {
    plans: Vec<BatchPlan>,
    /// The results of each shard of each batch.
    results: Vec<T>,
}

/// Results as they are sent.
#[derive(Clone, PartialEq, Message)]
struct Encoded {
    #[prost(bytes = "vec", repeated, tag = "1")]
    results: Vec<Vec<u8>>,
}

impl<T: Message + Default> Collected<T> {
    pub(super) fn new() -> Collected<T> {
        Collected { plans: Vec::new(), results: Vec::new() }
    }

    /// Adds the results of a batch, one for each of this host's shards, or none where another host has them.
    pub(super) fn add(&mut self, batch: &HostBatch, results: impl IntoIterator<Item = T>) {
        self.plans.push(batch.scheduled.plan.clone());
        self.results.extend(results);
    }

    /// On the first host, calls `place` for each batch with the results of all its shards.
    pub(super) fn finish(
        self,
        hosts: &Hosts,
        mut place: impl FnMut(&BatchPlan, Vec<T>) -> RunResult<()>,
    ) -> RunResult<()> {
        let Collected { plans, results } = self;
        let by_host = match hosts.is_alone() {
            true => vec![results],
            false => match hosts.gather(RESULTS, encode(&results))? {
                Some(parts) => parts.iter().map(|part| decode(part)).collect::<RunResult<_>>()?,
                None => return Ok(()),
            },
        };
        // In a pipeline over hosts, those with its last stage have results.
        let with_results = by_host.into_iter().filter(|results: &Vec<T>| !results.is_empty());
        let mut by_host: Vec<_> = with_results.map(Vec::into_iter).collect();
        for plan in &plans {
            let own = plan.cores / by_host.len().max(1);
            let shards = by_host.iter_mut().flat_map(|results| results.take(own));
            place(plan, shards.collect())?;
        }
        Ok(())
    }
}

fn encode<T: Message>(results: &[T]) -> Vec<u8> {
    Encoded { results: results.iter().map(Message::encode_to_vec).collect() }.encode_to_vec()
}

fn decode<T: Message + Default>(bytes: &[u8]) -> RunResult<Vec<T>> {
    let broken = |error: prost::DecodeError| {
        RunError::Panicked(format!("decode the results of another host: {error}"))
    };
    let encoded = Encoded::decode(bytes).map_err(broken)?;
    encoded.results.iter().map(|result| T::decode(result.as_slice()).map_err(broken)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::RowOutput;

    #[test]
    fn results_are_sent_with_their_bits() {
        let values = vec![f32::NAN, -0.0, 1.5e-40, f32::INFINITY];
        let results =
            [RowOutput { values: values.clone(), classes: vec![-1, 7] }, RowOutput::default()];
        let received: Vec<RowOutput> = decode(&encode(&results)).unwrap();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&received[0].values), bits(&values));
        assert_eq!((&received[0].classes, received.len()), (&vec![-1, 7], 2));
        assert!(decode::<RowOutput>(&[9]).is_err());
    }
}
