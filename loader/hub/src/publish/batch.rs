//! Uploads of large files to the hub's storage: in one piece, or in parts of the size that the storage
//! asks for, several at a time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::Problem;
use super::super::client::Client;
use super::content::Range;
use super::file::CommitFile;
use super::requests::repeat;

const PARTS_AT_ONCE: usize = 4;

/// The storage's answer about some files.
#[derive(Debug, Deserialize)]
pub(super) struct Batch {
    pub objects: Vec<Object>,
}

/// The storage's answer about one file.
#[derive(Debug, Deserialize)]
pub(super) struct Object {
    pub oid: String,
    /// Absent where the storage has the file.
    actions: Option<Actions>,
    error: Option<ObjectError>,
}

#[derive(Debug, Deserialize)]
struct Actions {
    upload: Action,
    verify: Option<Action>,
}

#[derive(Debug, Deserialize)]
struct Action {
    href: String,
    #[serde(default)]
    header: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
struct ObjectError {
    code: u16,
    message: String,
}

/// The upload of one file, which continues after an error.
#[derive(Debug)]
pub(super) struct FileUpload {
    oid: String,
    way: Way,
    verify: Option<String>,
}

#[derive(Debug)]
enum Way {
    /// The storage has it.
    There,
    Whole(String),
    Parts(Parts),
}

#[derive(Debug)]
struct Parts {
    part_bytes: u64,
    /// Addresses of the parts in order.
    urls: Vec<String>,
    /// The address that puts them together.
    complete: String,
    /// ETags of the parts that have arrived, by their indices.
    arrived: BTreeMap<usize, String>,
}

impl FileUpload {
    pub(super) fn new(object: Object, file: &CommitFile) -> Result<Self, Problem> {
        let Object { oid, actions, error } = object;
        if let Some(ObjectError { code, message }) = error {
            return Err(Problem::NotStored { status: code, message });
        }
        let Some(Actions { upload, verify }) = actions else {
            return Ok(Self { oid, way: Way::There, verify: None });
        };
        let way = match upload.header.contains_key("chunk_size") {
            true => Way::Parts(Parts::new(upload, file)?),
            false => Way::Whole(upload.href),
        };
        Ok(Self { oid, way, verify: verify.map(|action| action.href) })
    }

    /// Sends what the storage lacks.
    pub(super) fn send(
        &mut self,
        client: &Client,
        file: &CommitFile,
        abandoned: &Arc<AtomicBool>,
    ) -> Result<(), Problem> {
        match &mut self.way {
            Way::There => return Ok(()),
            Way::Whole(url) => {
                repeat(|| client.put(url, range(file, 0, file.bytes, abandoned)?))?;
            }
            Way::Parts(parts) => parts.send(client, file, &self.oid, abandoned)?,
        }
        if let Some(url) = &self.verify {
            let object = json!({"oid": self.oid, "size": file.bytes});
            repeat(|| client.verify(url, &object))?;
        }
        self.way = Way::There;
        Ok(())
    }
}

impl Parts {
    fn new(upload: Action, file: &CommitFile) -> Result<Self, Problem> {
        let corrupt = || Problem::Corrupt { file: "the list of parts to upload".to_owned() };
        let number = |value: &Value| match value {
            Value::String(text) => text.parse().ok(),
            value => value.as_u64(),
        };
        let part_bytes =
            upload.header.get("chunk_size").and_then(number).filter(|bytes| *bytes > 0);
        let part_bytes = part_bytes.ok_or_else(corrupt)?;
        let numbered = upload.header.iter().filter_map(|(name, url)| {
            Some((name.parse::<usize>().ok()?, url.as_str()?.to_owned()))
        });
        let urls: Vec<String> = numbered.collect::<BTreeMap<_, _>>().into_values().collect();
        if urls.len() as u64 != file.bytes.div_ceil(part_bytes) {
            return Err(corrupt());
        }
        Ok(Self { part_bytes, urls, complete: upload.href, arrived: BTreeMap::new() })
    }

    fn send(
        &mut self,
        client: &Client,
        file: &CommitFile,
        oid: &str,
        abandoned: &Arc<AtomicBool>,
    ) -> Result<(), Problem> {
        let missing = (0..self.urls.len()).filter(|index| !self.arrived.contains_key(index));
        let missing = Mutex::new(missing.collect::<VecDeque<_>>());
        let arrived = Mutex::new(std::mem::take(&mut self.arrived));
        let failed = Mutex::new(None);
        let (urls, part_bytes) = (&self.urls, self.part_bytes);
        // The guard must not live as long as the loop's body.
        let next = || lock(&missing).pop_front();
        let send_some = || {
            while let Some(index) = next() {
                let at = index as u64 * part_bytes;
                let part = || range(file, at, part_bytes.min(file.bytes - at), abandoned);
                match repeat(|| client.put(&urls[index], part()?)) {
                    Ok(etag) => drop(lock(&arrived).insert(index, etag)),
                    Err(problem) => {
                        lock(&missing).clear();
                        *lock(&failed) = Some(problem);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..PARTS_AT_ONCE.min(urls.len()) {
                scope.spawn(send_some);
            }
        });
        self.arrived = arrived.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(problem) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(problem);
        }
        let part =
            |(index, etag): (&usize, &String)| json!({"partNumber": index + 1, "etag": etag});
        let parts: Vec<Value> = self.arrived.iter().map(part).collect();
        let parts = json!({"oid": oid, "parts": parts});
        repeat(|| client.complete_parts(&self.complete, &parts))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn range(
    file: &CommitFile,
    at: u64,
    bytes: u64,
    abandoned: &Arc<AtomicBool>,
) -> Result<Range, Problem> {
    if abandoned.load(Ordering::Relaxed) {
        return Err(Problem::Abandoned);
    }
    Ok(Range { file: file.handle()?, at, left: bytes, abandoned: Arc::clone(abandoned) })
}
