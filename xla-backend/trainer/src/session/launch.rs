//! Programs of a step or of an evaluation that may still run.

use std::sync::Arc;
use std::time::Duration;

use traind_xla::runtime::{Fetched, HandOver, Pending};

use super::Observer;
use crate::error::Result;

/// The programs that were launched for a batch or for an update.
#[derive(Debug)]
pub struct Launch {
    programs: Vec<Pending>,
    took: Duration,
}

impl Launch {
    pub(super) fn new(programs: Vec<Pending>, took: Duration) -> Launch {
        Launch { programs, took }
    }

    /// The time that handing them over took. A pipeline that ran meanwhile computed.
    pub fn hand_over(&self) -> HandOver {
        match &self.programs[..] {
            [program] => program.hand_over(),
            programs => {
                let compute = programs.iter().any(|it| !it.hand_over().compute.is_zero());
                match compute {
                    true => HandOver { compute: self.took, ..HandOver::default() },
                    false => HandOver { dispatch: self.took, ..HandOver::default() },
                }
            }
        }
    }

    /// Waits until the programs have ended.
    pub fn wait(&self) -> Result<()> {
        Ok(self.programs.iter().try_for_each(Pending::wait)?)
    }

    /// Waits, then copies the values that the first program fetches.
    pub fn fetch(self) -> Result<Fetched> {
        self.wait()?;
        let first = self.programs.into_iter().next();
        Ok(first.map(Pending::fetch).transpose()?.unwrap_or_default())
    }
}

/// The programs that were launched for an evaluated batch.
#[derive(Debug)]
pub struct EvaluationLaunch {
    /// The programs whose values are fetched, by micro-batch; `None` where the last stage, which has them, is on
    /// another host.
    pub(super) programs: Option<Vec<Pending>>,
    /// The first core of each data shard.
    pub(super) cores: Vec<usize>,
    pub(super) observer: Arc<dyn Observer>,
}

impl EvaluationLaunch {
    pub(super) fn wait(&self) -> Result<()> {
        Ok(self.programs.iter().flatten().try_for_each(Pending::wait)?)
    }

    /// Waits, then copies the values of each data shard of this host; `None` where another host has them.
    pub fn fetch(self) -> Result<Option<Fetched>> {
        let ended = self.wait();
        self.observer.finished();
        ended?;
        let Some(programs) = self.programs else { return Ok(None) };
        let parts = programs.into_iter().map(Pending::fetch).collect::<Result<_, _>>()?;
        Ok(Some(Fetched::join(parts)?.of_cores(&self.cores)))
    }
}
