//! Uploads of files, in parts that are sent concurrently. An upload that broke off continues with the
//! parts that it lacks.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use futures_util::{StreamExt, stream};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path as Key;
use object_store::{MultipartId, ObjectStoreExt};

use super::objects::Bucket;
use super::s3;
use super::{Keep, Problem, Result};

/// Bytes of a part, unless the file has more than [`PARTS_MAX`] of them. S3 takes no smaller ones.
const PART_BYTES: u64 = 8 << 20;
/// S3 takes 10,000.
const PARTS_MAX: u64 = 9_000;
const PARTS_AT_ONCE: usize = 4;
const WRITE: &str = "write it";

/// The upload of a file, which may be continued after an error.
#[derive(Debug)]
pub struct Upload {
    path: PathBuf,
    name: String,
    bytes: u64,
    part_bytes: u64,
    /// Set once an upload in parts has begun.
    id: Option<MultipartId>,
    /// The parts that have arrived, by their indices.
    parts: BTreeMap<usize, PartId>,
    is_complete: bool,
}

impl Upload {
    /// Plans the upload of `path` under `name`. No request is sent.
    pub fn new(path: &Path, name: &str) -> std::io::Result<Self> {
        let bytes = path.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            name: name.to_owned(),
            bytes,
            part_bytes: PART_BYTES.max(bytes.div_ceil(PARTS_MAX)),
            id: None,
            parts: BTreeMap::new(),
            is_complete: false,
        })
    }

    /// Size of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sends what the bucket lacks. The object appears when all has arrived.
    pub fn send(&mut self, bucket: &Bucket, keep: Keep<'_>) -> Result<()> {
        if self.is_complete {
            return Ok(());
        }
        let key = bucket.key(&self.name)?;
        let name = self.name.clone();
        let sent = bucket.call(&name, keep, async {
            match self.bytes <= self.part_bytes {
                true => self.send_whole(bucket, &key).await,
                false => self.send_parts(bucket, &key).await,
            }
        });
        match sent {
            Ok(()) => self.is_complete = true,
            // The server has forgotten the upload: begin another one.
            Err(ref error) if matches!(*error.problem, Problem::NotFound) => self.restart(),
            Err(_) => {}
        }
        sent
    }

    /// Removes the parts that have arrived, of an upload that is not continued.
    pub fn abort(mut self, bucket: &Bucket, keep: Keep<'_>) -> Result<()> {
        let (Some(id), false) = (self.id.take(), self.is_complete) else { return Ok(()) };
        let key = bucket.key(&self.name)?;
        bucket.call(&self.name, keep, async {
            let aborted = bucket.connected.store.abort_multipart(&key, &id).await;
            aborted.map_err(|error| s3::problem("remove its parts", error))
        })
    }

    fn restart(&mut self) {
        self.id = None;
        self.parts.clear();
    }

    async fn send_whole(&self, bucket: &Bucket, key: &Key) -> std::result::Result<(), Problem> {
        let content = std::fs::read(&self.path).map_err(Problem::io("read", &self.path))?;
        let sent = bucket.connected.store.put(key, content.into()).await;
        sent.map(drop).map_err(|error| s3::problem(WRITE, error))
    }

    async fn send_parts(&mut self, bucket: &Bucket, key: &Key) -> std::result::Result<(), Problem> {
        let store = &bucket.connected.store;
        let failed = |error| s3::problem(WRITE, error);
        let id = match &self.id {
            Some(id) => id.clone(),
            None => store.create_multipart(key).await.map_err(failed)?,
        };
        self.id = Some(id.clone());
        let file = File::open(&self.path).map_err(Problem::io("read", &self.path))?;
        let (path, part_bytes, bytes) = (self.path.clone(), self.part_bytes, self.bytes);
        let count = bytes.div_ceil(part_bytes) as usize;
        let missing: Vec<usize> =
            (0..count).filter(|index| !self.parts.contains_key(index)).collect();
        let has_failed = Cell::new(false);
        let send = |index: usize| {
            let (file, path, id, has_failed) = (&file, &path, &id, &has_failed);
            async move {
                if has_failed.get() {
                    return Ok(None);
                }
                let content = part(file, index, part_bytes, bytes);
                let content = content.map_err(Problem::io("read", path))?;
                let sent = store.put_part(key, id, index, content.into()).await;
                sent.map(|part| Some((index, part))).map_err(failed)
            }
        };
        let mut sending = stream::iter(missing).map(send).buffer_unordered(PARTS_AT_ONCE);
        let mut sent_all = Ok(());
        // The parts that are under way when one fails still count.
        while let Some(sent) = sending.next().await {
            match sent {
                Ok(part) => self.parts.extend(part),
                Err(problem) => {
                    has_failed.set(true);
                    sent_all = Err(problem);
                }
            }
        }
        drop(sending);
        sent_all?;
        let parts = self.parts.values().cloned().collect();
        store.complete_multipart(key, &id, parts).await.map(drop).map_err(failed)
    }
}

fn part(file: &File, index: usize, part_bytes: u64, bytes: u64) -> std::io::Result<Vec<u8>> {
    let start = index as u64 * part_bytes;
    let mut content = vec![0; part_bytes.min(bytes - start) as usize];
    file.read_exact_at(&mut content, start)?;
    Ok(content)
}
