//! The sums of small arrays over the cores of this process. The last core that calls adds the arrays of all.

use traind_pjrt::{DeferredCall, DeferredKernel, KernelCall, KernelError};

use super::meeting::{Meetings, Participant};

/// Arrays, which become sums in place. All `cores` of an execution meet in each call, which the attribute `meeting`
/// numbers.
pub(crate) struct Sums {
    place: Participant,
}

static MEETINGS: Meetings = Meetings::new();

impl DeferredKernel for Sums {
    const NAME: &'static str = "traind.sums";

    fn of_call(call: &KernelCall<'_>) -> Result<Sums, KernelError> {
        let cores = usize::try_from(call.attribute::<i64>("cores")?);
        let place = Participant {
            meeting: (call.run_id()?, 0, call.attribute("meeting")?),
            core: call.device_ordinal()?,
            cores: cores.map_err(|_| "has no cores")?,
        };
        Ok(Sums { place })
    }

    fn start(self, call: DeferredCall) {
        MEETINGS.join(self.place, call, add);
    }
}

/// Adds in the order of the cores.
fn add(calls: &mut [DeferredCall]) -> Result<(), KernelError> {
    let Some((first, others)) = calls.split_first_mut() else { return Ok(()) };
    let count = first.result_count();
    let mut sums = first.updated_arrays::<f32>(count..count)?.updated;
    let others =
        others.iter_mut().map(|call| Ok(call.updated_arrays::<f32>(count..count)?.updated));
    let mut others = others.collect::<Result<Vec<_>, KernelError>>()?;
    for (index, sum) in sums.iter_mut().enumerate() {
        for arrays in &mut others {
            let array = arrays.get_mut(index).ok_or("cores have different numbers of arrays")?;
            sum.iter_mut().zip(array.iter()).for_each(|(sum, array)| *sum += array);
        }
        for arrays in &mut others {
            arrays[index].copy_from_slice(sum);
        }
    }
    Ok(())
}
