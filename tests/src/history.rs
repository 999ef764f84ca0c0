//! The history of a job, read from its events.

use traind_proto::v1::event::Kind;
use traind_proto::v1::{
    Compiled, DataPrepared, Event, Fetched, Finished, Job, JobState, Prepared, Resumed, Saved,
    Started, Step, Uploaded,
};

/// A job that has ended, and all its events.
#[derive(Debug)]
pub struct History {
    pub job: Job,
    pub events: Vec<Event>,
}

impl History {
    /// The kinds of the events, with consecutive repetitions removed.
    pub fn event_names(&self) -> Vec<String> {
        let mut event_names: Vec<String> = self.kinds().map(event_name).collect();
        event_names.dedup();
        event_names
    }

    /// The states of the job, in order.
    pub fn states(&self) -> Vec<JobState> {
        self.each(|kind| match kind {
            Kind::StateChanged(changed) => Some(changed.to()),
            _ => None,
        })
    }

    pub fn steps(&self) -> Vec<&Step> {
        self.each(|kind| if let Kind::Step(step) = kind { Some(step) } else { None })
    }

    pub fn compiled(&self) -> Vec<&Compiled> {
        self.each(|kind| if let Kind::Compiled(compiled) = kind { Some(compiled) } else { None })
    }

    pub fn data(&self) -> Vec<&DataPrepared> {
        self.each(|kind| if let Kind::DataPrepared(data) = kind { Some(data) } else { None })
    }

    /// The preparations while the job waited.
    pub fn prepared(&self) -> Vec<&Prepared> {
        self.each(|kind| if let Kind::Prepared(prepared) = kind { Some(prepared) } else { None })
    }

    pub fn saved(&self) -> Vec<&Saved> {
        self.each(|kind| if let Kind::Saved(saved) = kind { Some(saved) } else { None })
    }

    pub fn fetched(&self) -> Vec<&Fetched> {
        self.each(|kind| if let Kind::Fetched(fetched) = kind { Some(fetched) } else { None })
    }

    pub fn uploaded(&self) -> Vec<&Uploaded> {
        self.each(|kind| if let Kind::Uploaded(uploaded) = kind { Some(uploaded) } else { None })
    }

    /// The events of attempts that resumed from a checkpoint.
    pub fn resumed(&self) -> Vec<&Resumed> {
        self.each(|kind| if let Kind::Resumed(resumed) = kind { Some(resumed) } else { None })
    }

    pub fn log_messages(&self) -> Vec<&str> {
        self.each(|kind| if let Kind::Log(log) = kind { Some(log.message.as_str()) } else { None })
    }

    /// The messages of warnings with this code.
    pub fn warnings(&self, code: &str) -> Vec<&str> {
        self.each(|kind| match kind {
            Kind::Warning(warning) if warning.code == code => Some(warning.message.as_str()),
            _ => None,
        })
    }

    pub fn waiting_reasons(&self) -> Vec<&str> {
        self.each(|kind| match kind {
            Kind::Waiting(waiting) => Some(waiting.reason.as_str()),
            _ => None,
        })
    }

    /// The first event of the only runner.
    pub fn started(&self) -> &Started {
        self.only(|kind| if let Kind::Started(started) = kind { Some(started) } else { None })
    }

    /// The last event of the only runner.
    pub fn finished(&self) -> &Finished {
        self.only(|kind| if let Kind::Finished(finished) = kind { Some(finished) } else { None })
    }

    /// The last events of all runners of the job.
    pub fn all_finished(&self) -> Vec<&Finished> {
        self.each(|kind| if let Kind::Finished(finished) = kind { Some(finished) } else { None })
    }

    fn only<'a, T>(&'a self, pick: impl Fn(&'a Kind) -> Option<T>) -> T {
        let mut picked = self.each(pick);
        assert_eq!(picked.len(), 1, "{:?}", self.event_names());
        picked.remove(0)
    }

    /// Asserts that no event is lost or duplicated: sequence numbers without gaps, every logged step
    /// once.
    pub fn assert_complete(&self) {
        let sequences: Vec<u64> = self.events.iter().map(|event| event.sequence).collect();
        assert_eq!(sequences, (1..=self.events.len() as u64).collect::<Vec<_>>());
        let steps: Vec<u64> = self.steps().into_iter().map(|step| step.step).collect();
        let distance = steps.first().copied().unwrap_or(1);
        let expect: Vec<u64> = (1..=steps.len() as u64).map(|index| index * distance).collect();
        assert_eq!(steps, expect);
    }

    fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.events.iter().filter_map(|event| event.kind.as_ref())
    }

    fn each<'a, T>(&'a self, pick: impl Fn(&'a Kind) -> Option<T>) -> Vec<T> {
        self.kinds().filter_map(pick).collect()
    }
}

/// The variant's name, with the state or split that distinguishes it.
fn event_name(kind: &Kind) -> String {
    match kind {
        Kind::StateChanged(changed) => changed.to().as_str_name().replace("JOB_STATE_", ""),
        Kind::DataPrepared(data) => format!("DataPrepared {}", data.split),
        Kind::Evaluated(evaluated) => format!("Evaluated {}", evaluated.split),
        kind => format!("{kind:?}").split('(').next().unwrap().to_owned(),
    }
}
