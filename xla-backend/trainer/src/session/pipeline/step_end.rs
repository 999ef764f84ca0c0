//! The end of a step: the sums of all stages, the updates, and the parameters that several stages read.

use traind_pjrt::Buffer;
use traind_xla::runtime::{CoreInputs, Fetched, HostArray, LazyDevice, Pending};

use super::far_stages::Tag;
use super::{Ended, Session, launch, no_inputs, on_threads, unknown};
use crate::error::Result;
use crate::session::upload;
use crate::state::{Loan, PARTS_IN_FLIGHT};
use crate::step::{METRIC_SUMS, Program, ProgramShape, SUMS};

/// The sums of a stage over its cores: those of [`SUMS`] in their order, then those of metrics.
type Sums = Vec<f32>;
/// The place of the squares among them.
const SQUARE_SUM: usize = 2;

impl Session {
    /// Ends a step: sums over all stages, clips and updates. The parameters that several stages read
    /// are updated on one and copied to the others.
    pub(in crate::session) fn update_stages(
        &mut self,
        scalars: &HostArray,
    ) -> Result<Vec<Pending>> {
        self.ready_parts(ProgramShape::update(), 1)?;
        let sums = self.reduce_stages()?;
        let totals = totals(&self.sums_of_all(sums)?, self.programs.pipeline.last_stage())?;
        let hosts = self.devices[0].cores().mesh().hosts();
        let mut runs = Vec::new();
        for (stage, device) in self.programs.stages.clone().zip(&mut self.devices) {
            let inputs = upload::replicate(device.cores(), &[scalars, &totals])?;
            let parts = self.programs.update_shapes(stage).into_iter();
            runs.push((device, parts.map(|part| part.key()).collect::<Vec<_>>(), inputs));
        }
        let launched =
            on_stages(hosts, runs, |(device, keys, inputs)| launch_parts(device, &keys, &inputs))?;
        self.return_loans()?;
        Ok(launched.into_iter().flatten().collect())
    }

    /// The sums of each stage of this host.
    fn reduce_stages(&mut self) -> Result<Vec<Sums>> {
        let mut runs = Vec::new();
        let mut borrowed = self.borrowed_sums()?;
        let hosts = self.devices[0].cores().mesh().hosts();
        for (place, device) in self.devices.iter_mut().enumerate() {
            let shape = ProgramShape { program: Program::Reduce, ..ProgramShape::update() };
            let stage = self.programs.stages.start + place;
            runs.push((device, shape.of_chunk(stage).key(), std::mem::take(&mut borrowed[place])));
        }
        let run = |(device, key, inputs): (&mut LazyDevice, String, CoreInputs)| {
            let launched = launch(device, &key, &inputs)?;
            launched.fetch().map_err(|error| Some(error.into()))
        };
        let fetched = on_stages(hosts, runs, run)?;
        fetched.iter().map(sums).collect()
    }

    /// The sums of the stages of all hosts, from those of this one.
    fn sums_of_all(&self, own: Vec<Sums>) -> Result<Vec<Sums>> {
        let Some(far) = self.far_stages()? else { return Ok(own) };
        let count = own.first().map_or(SUMS.len(), Vec::len);
        let bytes = own.iter().flatten().flat_map(|sum| sum.to_le_bytes()).collect();
        let gathered = far.gather(Tag::Sums, bytes)?.concat();
        let (numbers, _) = gathered.as_chunks();
        let numbers: Vec<f32> = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        Ok(numbers.chunks_exact(count).map(<[f32]>::to_vec).collect())
    }

    /// The gradient sums that other stages have of the parameters of each stage of this host, on its cores.
    fn borrowed_sums(&self) -> Result<Vec<CoreInputs>> {
        let mut inputs: Vec<CoreInputs> = self.devices.iter().map(no_inputs).collect();
        for loan in &self.programs.loans {
            let Some(copies) = self.carry(loan, Carried::Sum)? else { continue };
            if let Some(owner) = self.programs.own_place(loan.owner) {
                inputs[owner].iter_mut().zip(copies).for_each(|(core, copy)| core.push(copy));
            }
        }
        Ok(inputs)
    }

    /// Copies updated parameters to the stages that borrow them.
    pub(in crate::session) fn return_loans(&mut self) -> Result<()> {
        for loan in self.programs.loans.clone() {
            let Some(copies) = self.carry(&loan, Carried::Value)? else { continue };
            let Some(borrower) = self.programs.own_place(loan.borrower) else { continue };
            let state = self.programs.states[borrower].parameter(loan.parameter);
            if let Some(variable) = state.map(|state| state.variable()) {
                self.devices[borrower].set_buffers(variable, copies)?;
            }
        }
        Ok(())
    }

    /// Copies what a loan carries from one of its stages to the other; returns it where that is on this host. All
    /// hosts call this for all loans in the same order.
    fn carry(&self, loan: &Loan, carried: Carried) -> Result<Option<Vec<Buffer>>> {
        let (from, to) = match carried {
            Carried::Sum => (loan.borrower, loan.owner),
            Carried::Value => (loan.owner, loan.borrower),
        };
        let near = [from, to].map(|stage| self.programs.own_place(stage));
        let Some(place) = near[0].or(near[1]) else { return Ok(None) };
        let Some(state) = self.programs.states[place].parameter(loan.parameter) else {
            return Ok(None);
        };
        let variable = match carried {
            Carried::Sum => state.gradient_sum(),
            Carried::Value => Some(state.variable()),
        };
        let Some(variable) = variable else { return Ok(None) };
        let device = &self.devices[place];
        match (near, self.far_stages()?) {
            ([Some(_), Some(to)], _) => {
                Ok(Some(device.copy_to(variable, self.devices[to].cores())?))
            }
            ([Some(_), None], Some(far)) => {
                let bytes = device.packed(variable)?;
                far.send(far.place_of(to), carried.tag(), bytes, |_| {})?;
                Ok(None)
            }
            ([None, Some(_)], Some(far)) => {
                let (cores, shape) = (device.cores(), device.shape(variable));
                let length = cores.packed_bytes([shape]);
                let packed = far.receive(far.place_of(from), carried.tag(), length)?;
                Ok(cores.unpack(&[shape], &packed)?.pop())
            }
            _ => Ok(None),
        }
    }
}

/// A value that goes from one stage of a loan to the other.
#[derive(Clone, Copy)]
enum Carried {
    /// The borrower's sum of gradients, to the owner.
    Sum,
    /// The updated parameter, to the borrower.
    Value,
}

impl Carried {
    fn tag(self) -> Tag {
        match self {
            Carried::Sum => Tag::Borrowed,
            Carried::Value => Tag::Lent,
        }
    }
}

fn sums(fetched: &Fetched) -> Result<Sums> {
    let mut sums: Sums =
        SUMS.iter().map(|name| fetched.scalar_f32(name)).collect::<Result<_, _>>()?;
    if let Ok(metrics) = fetched.per_core(METRIC_SUMS) {
        sums.extend(metrics[0].to_f32()?);
    }
    Ok(sums)
}

/// The sums of a step from those of all stages: all but the squares are those of the last one. The order of the stages
/// decides how squares are rounded, so it is the same however hosts divide them.
fn totals(stages: &[Sums], last: usize) -> Result<HostArray> {
    let mut totals = stages[last].clone();
    totals[SQUARE_SUM] = stages.iter().fold(0.0, |sum, stage| sum + stage[SQUARE_SUM]);
    Ok(HostArray::from_f32(&[totals.len()], &totals)?)
}

/// Launches the parts of an update, of which few are under way at one time; returns the last one first,
/// which fetches what a step gives.
fn launch_parts(
    device: &mut LazyDevice,
    keys: &[String],
    inputs: &CoreInputs,
) -> Ended<Vec<Pending>> {
    let mut launched: Vec<Pending> = Vec::new();
    for key in keys {
        if let Some(before) = launched.len().checked_sub(PARTS_IN_FLIGHT) {
            launched[before].wait().map_err(|error| Some(error.into()))?;
        }
        launched.push(launch(device, key, inputs)?);
    }
    launched.reverse();
    Ok(launched)
}

/// Launches the programs of all stages at once, or where they may exchange data with other hosts, of one stage after
/// the other: a client may run those of several devices one at a time, in the order of their launch, and hosts that
/// launched them in different orders would wait for each other.
fn on_stages<S: Send, T: Send>(
    hosts: usize,
    stages: Vec<S>,
    run: impl Fn(S) -> Ended<T> + Copy + Send + Sync,
) -> Result<Vec<T>> {
    if hosts == 1 {
        return on_threads(stages, run);
    }
    let in_turn = |stage| run(stage).map_err(|error| error.unwrap_or_else(unknown));
    stages.into_iter().map(in_turn).collect()
}
