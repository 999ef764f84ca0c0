//! Programs of a step that may still run.

use std::time::Duration;

use traind_xla::runtime::{Fetched, HandOver, Pending};

use crate::error::RunResult;

/// The programs that were launched for a batch or for an update.
#[derive(Debug)]
pub(crate) struct Launch {
    programs: Vec<Pending>,
    took: Duration,
}

impl Launch {
    pub(super) fn new(programs: Vec<Pending>, took: Duration) -> Launch {
        Launch { programs, took }
    }

    /// The time that handing them over took. A pipeline that ran meanwhile computed.
    pub(crate) fn hand_over(&self) -> HandOver {
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

    pub(crate) fn wait(&self) -> RunResult<()> {
        Ok(self.programs.iter().try_for_each(Pending::wait)?)
    }

    /// Waits, then copies the values that the first program fetches.
    pub(crate) fn fetch(self) -> RunResult<Fetched> {
        self.wait()?;
        let first = self.programs.into_iter().next();
        Ok(first.map(Pending::fetch).transpose()?.unwrap_or_default())
    }
}
