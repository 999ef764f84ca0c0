//! How the hosts of a job divide its mesh: layers are shared within a host, and rows and stages also across hosts.

use super::JobFile;
use super::parallel::CorePlacement;

impl JobFile {
    /// The number of hosts that have different stages of the same pipeline: as few as possible or, where
    /// `parallel.placement` puts stages farther apart than rows, as many. 1 where all hosts have all stages.
    pub fn pipeline_hosts(&self) -> u32 {
        let (hosts, stages, data) =
            (self.resources.hosts.max(1), self.parallel.pipeline, self.data_parallel_size());
        let divides = |far: &u32| {
            let same = hosts / far;
            hosts.is_multiple_of(*far) && stages.is_multiple_of(*far) && data.is_multiple_of(same)
        };
        let mut counts = (1..=hosts.min(stages)).filter(divides);
        let is_far = self.parallel.placement.stages_are_far();
        let found = if is_far { counts.next_back() } else { counts.next() };
        found.unwrap_or(1)
    }

    /// The number of hosts that have the same stages and different rows.
    pub fn data_hosts(&self) -> u32 {
        self.resources.hosts.max(1) / self.pipeline_hosts()
    }

    /// The number of cores of one host that each see different rows of a batch.
    pub fn host_data_parallel_size(&self) -> u32 {
        self.data_parallel_size() / self.data_hosts()
    }

    /// The number of pipeline stages of one host.
    pub fn host_pipeline_size(&self) -> u32 {
        self.parallel.pipeline / self.pipeline_hosts()
    }
}

impl CorePlacement {
    /// Whether the stages of a copy of the model are farther apart than copies are.
    pub fn stages_are_far(self) -> bool {
        self.order().find('P') < self.order().find('D')
    }
}
