//! The shards of sums over the cores of this process. The last core that calls adds: a thread for each core, which
//! writes that core's shards.

use std::thread;

use traind_kernels::sum::sum_parts;
use traind_pjrt::{DeferredCall, DeferredKernel, KernelCall, KernelError, flush_to_zero};

use super::meeting::{Meetings, Participant};
use super::optimizer::first;

/// Arrays and the number of the core, to its shards of the arrays' sums. All `cores` of an execution meet in each call,
/// which the attribute `meeting` numbers.
pub(crate) struct ShardSums {
    place: Participant,
}

static MEETINGS: Meetings = Meetings::new();

impl DeferredKernel for ShardSums {
    const NAME: &'static str = "traind.shard_sums";

    fn of_call(call: &KernelCall<'_>) -> Result<ShardSums, KernelError> {
        let cores = usize::try_from(call.attribute::<i64>("cores")?);
        let place = Participant {
            meeting: (call.run_id()?, 0, call.attribute("meeting")?),
            core: first(call.operand::<u32>(call.result_count())?)? as usize,
            cores: cores.map_err(|_| "has no cores")?,
        };
        Ok(ShardSums { place })
    }

    fn start(self, call: DeferredCall) {
        MEETINGS.join(self.place, call, add);
    }
}

/// Adds in the order of the cores.
fn add(calls: &mut [DeferredCall]) -> Result<(), KernelError> {
    let (mut shards, mut arrays) = (Vec::new(), Vec::new());
    for call in calls {
        let count = call.result_count();
        let found = call.written_arrays::<f32>(0..count)?;
        shards.push(found.written);
        arrays.push(found.read);
    }
    let mut cores = shards.into_iter().enumerate();
    let own = cores.next();
    thread::scope(|scope| {
        for (core, shards) in cores {
            let arrays = &arrays;
            scope.spawn(move || {
                flush_to_zero();
                add_shards(core, shards, arrays);
            });
        }
        own.into_iter().for_each(|(core, shards)| add_shards(core, shards, &arrays));
    });
    Ok(())
}

/// Writes the shards of a core, of which `arrays` has those of each core.
fn add_shards(core: usize, shards: Vec<&mut [f32]>, arrays: &[Vec<&[f32]>]) {
    for (index, shard) in shards.into_iter().enumerate() {
        let parts = arrays.iter().map(|arrays| {
            let array = arrays[index];
            let start = (core * shard.len()).min(array.len());
            &array[start..array.len().min(start + shard.len())]
        });
        let parts: Vec<&[f32]> = parts.collect();
        let length = parts.iter().map(|part| part.len()).min().unwrap_or(0);
        sum_parts(&mut shard[..length], &parts);
        // Zeros follow the last elements of an array.
        shard[length..].fill(0.0);
    }
}
