//! The job's claim of its locations in buckets: a lease while the run writes there, and the record of what traind
//! wrote. Nothing else there is replaced or removed, as in folders on the disk.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use traind_bucket::{Bucket, Keep, Lease, Location, Problem, Taken, Timing};
use traind_folders::{Claim, Holder, Intent, NOTES, Record, RemoteFolder, Use, record_name};
use traind_job_file::RunSpec;
use traind_rendezvous::host_name;

use super::folder_upload::FolderUpload;
use super::patience::Urgency;
use super::{Remote, run_error};
use crate::error::{RunError, RunResult};
use crate::output::{CHECKPOINT_PREFIX, failed};

const LEASE: &str = "lease";
const TIMING: Timing =
    Timing { renewal: Duration::from_secs(5), patience: Duration::from_secs(20) };
/// A record names each checkpoint and a few files.
const RECORD_BYTES_MAX: u64 = 64 << 20;

/// A location and its use.
struct Place<'a> {
    location: &'a Location,
    used: Use<'a>,
}

impl Remote {
    /// Leases the locations, refuses files there that the run would destroy, and begins the records. The leases end
    /// when they are dropped.
    pub(crate) fn claim(&self, spec: &RunSpec) -> RunResult<Vec<Lease>> {
        let intent = Intent::of(&spec.job);
        let mut leases = Vec::new();
        for place in self.places(spec, intent.checkpoints.is_some()) {
            let failed = run_error(place.used.field);
            let bucket = self.open(place.used.field, place.location)?;
            leases.push(self.lease(spec, &place)?);
            let keep = || self.keeps();
            let folder = look(&bucket, &keep).map_err(&failed)?;
            if let Some(conflict) = folder.conflict(&intent, place.used) {
                return Err(RunError::OutputOccupied(conflict));
            }
            let mut record = folder.begin(Claim { job: &spec.job_id, name: &spec.job.name });
            for step in folder.overwritten(&intent, place.used) {
                let upload = self.upload_to(&bucket, place.used.field, &|| Urgency::Last);
                upload.remove_checkpoint(&format!("{CHECKPOINT_PREFIX}{step}"))?;
                record.forget_checkpoint(step);
            }
            write(&bucket, &record, &keep).map_err(&failed)?;
            if place.used.has_checkpoints {
                // A run claims its locations once.
                let _ = self.claimed.set(record);
            }
        }
        Ok(leases)
    }

    /// Returns the steps of the complete checkpoints in the bucket that traind wrote, in ascending order, by the record
    /// that the claim has begun.
    pub(crate) fn recorded_checkpoints(&self) -> RunResult<Vec<u64>> {
        let mut complete = self.complete_checkpoints()?;
        complete.retain(|step| self.claimed.get().is_none_or(|it| it.has_checkpoint(*step)));
        Ok(complete)
    }

    /// The locations that the run writes, each once.
    fn places<'a>(&'a self, spec: &'a RunSpec, saves: bool) -> Vec<Place<'a>> {
        let own = (spec.attempt > 1).then_some(spec.job_id.as_str());
        let used =
            |field, has_output, has_checkpoints| Use { field, has_output, has_checkpoints, own };
        let (output, checkpoints) = (self.output.as_ref(), self.checkpoints.as_ref());
        let is_one = output == checkpoints;
        let output = output
            .map(|location| Place { location, used: used("output_dir", true, is_one && saves) });
        let checkpoints = checkpoints.filter(|_| !is_one && saves);
        let checkpoints = checkpoints
            .map(|location| Place { location, used: used("checkpoint_dir", false, true) });
        output.into_iter().chain(checkpoints).collect()
    }

    fn lease(&self, spec: &RunSpec, place: &Place<'_>) -> RunResult<Lease> {
        let url = PathBuf::from(place.location.to_string());
        let (job, name) = (spec.job_id.clone(), spec.job.name.clone());
        let holder = Holder { job, name, host: host_name() };
        let line = serde_json::to_string(&holder).map_err(io::Error::from);
        let line = line.map_err(failed("describe the lease of", &url))?;
        let is_own = |line: &str| Holder::parse(line.as_bytes()).job == holder.job;
        let (bucket, keep) = (self.open(place.used.field, place.location)?, || self.keeps());
        let name = format!("{NOTES}/{LEASE}");
        let taken = Lease::take(bucket, &name, &line, is_own, TIMING, &keep);
        match taken.map_err(run_error(place.used.field))? {
            Taken::Held(lease) => Ok(lease),
            Taken::By(other) => {
                let holder = Holder::parse(other.as_bytes());
                Err(RunError::OutputInUse { folder: url, holder })
            }
        }
    }
}

impl FolderUpload<'_> {
    /// Records what is about to be written. Fails where another job has taken the location over, since the lease
    /// could not be renewed for long.
    pub(super) fn record(&self, change: impl FnOnce(&mut Record)) -> RunResult<()> {
        let Some(mut record) = self.persist(|keep| read(self.bucket, keep))? else { return Ok(()) };
        if record.job != self.job_id {
            let holder = Holder { job: record.job, name: record.name, host: "another host".into() };
            let folder = PathBuf::from(self.bucket.location().to_string());
            return Err(RunError::OutputInUse { folder, holder });
        }
        change(&mut record);
        self.persist(|keep| write(self.bucket, &record, keep))
    }
}

fn look(bucket: &Bucket, keep: Keep<'_>) -> traind_bucket::Result<RemoteFolder> {
    let names = bucket.list("", keep)?.into_iter().map(|object| object.name).collect();
    Ok(RemoteFolder { url: bucket.location().to_string(), names, record: read(bucket, keep)? })
}

fn read(bucket: &Bucket, keep: Keep<'_>) -> traind_bucket::Result<Option<Record>> {
    let Some(content) = bucket.read(&record_name(), RECORD_BYTES_MAX, keep)? else {
        return Ok(None);
    };
    Record::parse(&content).map(Some).map_err(damaged(bucket))
}

fn write(bucket: &Bucket, record: &Record, keep: Keep<'_>) -> traind_bucket::Result<()> {
    let content = record.to_json().map_err(damaged(bucket))?;
    bucket.write(&record_name(), content, keep)
}

fn damaged(bucket: &Bucket) -> impl Fn(io::Error) -> traind_bucket::Error {
    let url = bucket.location().url(&record_name());
    move |error| traind_bucket::Error {
        url: url.clone(),
        problem: Box::new(Problem::Damaged { message: error.to_string() }),
    }
}
