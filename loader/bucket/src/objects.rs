//! Lists, reads and removes the files of a location.

use std::future::Future;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutMode};
use tokio::runtime::Runtime;

use super::s3::{self, Connected};
use super::{Error, Keep, Location, Object, Problem, Result};

/// The interval between two checks of [`Keep`].
const LOOK: Duration = Duration::from_millis(50);
/// The most objects of a listing; a hostile server's never ends.
const LISTED_MAX: usize = 1_000_000;
/// The file that [`Bucket::check`] writes and removes.
const PROBE: &str = ".traind-probe";

/// A location in a bucket.
#[derive(Debug)]
pub struct Bucket {
    location: Location,
    pub(crate) connected: Connected,
    runtime: Runtime,
}

impl Bucket {
    /// Makes a client. No request is sent.
    pub fn open(location: Location) -> Result<Self> {
        let failed = |problem| Error { url: location.to_string(), problem: Box::new(problem) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| {
            failed(Problem::Failed { action: "start a thread", message: error.to_string() })
        })?;
        let connected = s3::connect(&location.bucket);
        let connected = connected.map_err(|error| failed(s3::problem("be used", error)))?;
        Ok(Self { location, connected, runtime })
    }

    /// The location.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Checks that files can be written, listed and removed.
    pub fn check(&self, keep: Keep<'_>) -> Result<()> {
        let key = self.key(PROBE)?;
        self.call(PROBE, keep, async {
            let store = &self.connected.store;
            let put = store.put(&key, Bytes::new().into()).await;
            put.map_err(|error| s3::problem("write to it", error))?;
            let listed = store.list(self.folder("").as_ref()).next().await.transpose();
            listed.map_err(|error| s3::problem("list it", error))?;
            let removed = store.delete(&key).await;
            removed.map_err(|error| s3::problem("remove objects from it", error))
        })
        .map_err(|error| Error { url: self.location.to_string(), ..error })
    }

    /// Returns the files below `folder`, sorted by name. An empty `folder` stands for the location.
    pub fn list(&self, folder: &str, keep: Keep<'_>) -> Result<Vec<Object>> {
        self.call(folder, keep, async {
            let listed = self.connected.store.list(self.folder(folder).as_ref());
            let listed: Vec<ObjectMeta> = listed
                .take(LISTED_MAX + 1)
                .try_collect()
                .await
                .map_err(|error| s3::problem("list it", error))?;
            if listed.len() > LISTED_MAX {
                let message = format!("it has more than {LISTED_MAX} objects");
                return Err(Problem::Failed { action: "list it", message });
            }
            let mut objects: Vec<Object> =
                listed.iter().filter_map(|object| self.object(object)).collect();
            objects.sort_by(|one, other| one.name.cmp(&other.name));
            Ok(objects)
        })
    }

    /// Returns the content of a small file, or `None` if it does not exist. One of more than `bytes_max` is an error.
    pub fn read(&self, name: &str, bytes_max: u64, keep: Keep<'_>) -> Result<Option<Vec<u8>>> {
        let key = self.key(name)?;
        self.call(name, keep, async {
            let failed = |error| s3::problem("read it", error);
            let found = match self.connected.store.get(&key).await {
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                found => found.map_err(failed)?,
            };
            if found.meta.size > bytes_max {
                let message = format!("it has {} bytes, more than {bytes_max}", found.meta.size);
                return Err(Problem::Failed { action: "read it", message });
            }
            Ok(Some(found.bytes().await.map_err(failed)?.to_vec()))
        })
    }

    /// Writes a small file, in the place of the one that may be there.
    pub fn write(&self, name: &str, content: Vec<u8>, keep: Keep<'_>) -> Result<()> {
        let key = self.key(name)?;
        self.call(name, keep, async {
            let put = self.connected.store.put(&key, content.into()).await;
            put.map(drop).map_err(|error| s3::problem("write it", error))
        })
    }

    /// Writes a small file that does not exist, or returns false. A server without conditional writes replaces it.
    pub fn create(&self, name: &str, content: Vec<u8>, keep: Keep<'_>) -> Result<bool> {
        let key = self.key(name)?;
        self.call(name, keep, async {
            let store = &self.connected.store;
            match store.put_opts(&key, content.clone().into(), PutMode::Create.into()).await {
                Ok(_) => Ok(true),
                Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
                Err(error) if s3::has_no_conditions(&error) => {
                    let put = store.put(&key, content.into()).await;
                    put.map(|_| true).map_err(|error| s3::problem("write it", error))
                }
                Err(error) => Err(s3::problem("write it", error)),
            }
        })
    }

    /// Removes a file. One that does not exist is no error.
    pub fn remove(&self, name: &str, keep: Keep<'_>) -> Result<()> {
        let key = self.key(name)?;
        self.call(name, keep, async {
            match self.connected.store.delete(&key).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(s3::problem("remove it", error)),
            }
        })
    }

    /// Writes the content of a file to the new file `path`.
    pub fn download(&self, object: &Object, path: &Path, keep: Keep<'_>) -> Result<()> {
        let key = self.key(&object.name)?;
        self.call(&object.name, keep, async {
            let mut file = std::fs::File::create(path).map_err(Problem::io("create", path))?;
            let failed = |error| s3::problem("read it", error);
            let mut content = self.connected.store.get(&key).await.map_err(failed)?.into_stream();
            let mut found = 0;
            while let Some(bytes) = content.next().await.transpose().map_err(failed)? {
                found += bytes.len() as u64;
                // The server does not keep to the size that it gave, and may never end.
                if found > object.bytes {
                    break;
                }
                file.write_all(&bytes).map_err(Problem::io("write", path))?;
            }
            if found != object.bytes {
                return Err(Problem::Short { found, expected: object.bytes });
            }
            file.sync_all().map_err(Problem::io("write", path))
        })
    }

    pub(crate) fn key(&self, name: &str) -> Result<Key> {
        let key = Key::parse(self.location.key(name));
        key.map_err(|_| self.error(name, Problem::NotAUrl))
    }

    /// Runs a request for the file `name` until it ends or `keep` returns false.
    pub(crate) fn call<T>(
        &self,
        name: &str,
        keep: Keep<'_>,
        request: impl Future<Output = std::result::Result<T, Problem>>,
    ) -> Result<T> {
        let abandoned = async {
            while keep() {
                tokio::time::sleep(LOOK).await;
            }
        };
        let ended = self.runtime.block_on(async {
            tokio::select! {
                ended = request => ended,
                () = abandoned => Err(Problem::Abandoned),
            }
        });
        ended.map_err(|problem| self.error(name, problem))
    }

    fn error(&self, name: &str, problem: Problem) -> Error {
        let url = match name {
            "" => self.location.to_string(),
            name => self.location.url(name),
        };
        Error { url, problem: Box::new(problem) }
    }

    fn folder(&self, folder: &str) -> Option<Key> {
        let key = self.location.key(folder);
        Some(key.trim_matches('/')).filter(|key| !key.is_empty()).map(Key::from)
    }

    fn object(&self, object: &ObjectMeta) -> Option<Object> {
        let key = object.location.as_ref();
        let name = match self.location.prefix.as_str() {
            "" => key,
            prefix => key.strip_prefix(prefix)?.strip_prefix('/')?,
        };
        Some(Object { name: name.to_owned(), bytes: object.size })
    }
}
