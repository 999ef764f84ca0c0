//! Data files by `s3://bucket/key` URLs, wildcards included, from AWS or a server that speaks its
//! protocol (`AWS_ENDPOINT_URL`). Credentials come from where AWS's own tools take them: the
//! environment, the container, the instance.
//!
//! An object is fetched into the cache before it is read, under a name that stands for its very
//! content (its ETag and size), so that it is fetched once, and every pass reads the same bytes.
//! An interrupted download resumes where it ended.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::AmazonS3;
use object_store::path::Path as Key;
use object_store::{GetOptions, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt};
use traind_bucket::{Connected, error_chain, is_no_bucket};
use traind_cache::require_space;

use super::FetchContext;
use super::data_path::{DataPath, SCHEME};
use crate::error::{Error, ObjectProblem, Result};

/// Bytes asked for at a time, and how many such requests are under way.
const CHUNK_BYTES: u64 = 8 << 20;
const CHUNKS_AT_ONCE: usize = 4;
/// Tries for a chunk whose body breaks off; each of them retries what the server refuses.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);
/// The most objects of a listing that are looked at; a hostile server's never ends.
const LISTED_MAX: usize = 1_000_000;
/// The interval between checks for cancellation.
const LOOK: Duration = Duration::from_millis(50);

/// Fetches what a URL or a pattern of one names, sorted by key.
pub(super) fn fetch(
    pattern: &str,
    cache_dir: &Path,
    context: &FetchContext,
) -> Result<Vec<DataPath>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Error::io(Path::new(pattern), "start a download of"))?;
    let fetched = async {
        let bucket = Bucket::open(pattern, context.clone())?;
        let mut files = Vec::new();
        for object in bucket.find().await? {
            files.push(bucket.fetch(&object, cache_dir).await?);
        }
        Ok(files)
    };
    runtime.block_on(async {
        tokio::select! {
            files = fetched => files,
            () = until_cancelled(context) => Err(Error::Abandoned),
        }
    })
}

/// Returns once downloads are cancelled, so that a silent server does not delay the end of a run.
async fn until_cancelled(context: &FetchContext) {
    while !context.is_cancelled() {
        tokio::time::sleep(LOOK).await;
    }
}

struct Bucket {
    store: AmazonS3,
    /// Another endpoint may have a bucket of the same name.
    endpoint: String,
    name: String,
    /// The key or pattern that was requested.
    pattern: String,
    context: FetchContext,
}

impl Bucket {
    fn open(url: &str, context: FetchContext) -> Result<Self> {
        let (name, pattern) = url[SCHEME.len()..].split_once('/').unwrap_or_default();
        if name.is_empty() || pattern.is_empty() {
            return Err(problem(url, ObjectProblem::NotAUrl));
        }
        let connected = traind_bucket::connect(name);
        let Connected { store, endpoint } =
            connected.map_err(|error| problem(url, ObjectProblem::of(error)))?;
        Ok(Self { store, endpoint, name: name.to_owned(), pattern: pattern.to_owned(), context })
    }

    /// The objects that the pattern names.
    async fn find(&self) -> Result<Vec<ObjectMeta>> {
        if !self.pattern.contains(['*', '?', '[']) {
            return Ok(vec![self.head().await?]);
        }
        let url = self.url(&self.pattern);
        let glob = glob::Pattern::new(&self.pattern).map_err(|error| Error::BadGlob {
            pattern: url.clone(),
            message: error.msg.to_owned(),
        })?;
        let options = glob::MatchOptions { require_literal_separator: true, ..Default::default() };
        let fixed = self.pattern.split(['*', '?', '[']).next().unwrap_or_default();
        let folder = fixed.rsplit_once('/').map(|(folder, _)| Key::from(folder));
        let matches = |object: &ObjectMeta| glob.matches_with(object.location.as_ref(), options);
        let listed = self.store.list(folder.as_ref()).take(LISTED_MAX);
        let listed = listed.try_filter(|object| std::future::ready(matches(object)));
        let found = listed.try_collect::<Vec<ObjectMeta>>().await;
        let mut found = found.map_err(|error| self.problem(&self.pattern, error))?;
        found.sort_by(|one, other| one.location.cmp(&other.location));
        match found.is_empty() {
            true => Err(Error::NoMatch { pattern: url }),
            false => Ok(found),
        }
    }

    async fn head(&self) -> Result<ObjectMeta> {
        let key = Key::parse(&self.pattern);
        let key = key.map_err(|_| problem(&self.url(&self.pattern), ObjectProblem::NotAUrl))?;
        let error = match self.store.head(&key).await {
            Ok(object) => return Ok(object),
            Err(error) => error,
        };
        // A response without a body does not name what is missing; a listing does.
        let missing = matches!(error, object_store::Error::NotFound { .. });
        let listed = match missing {
            true => self.store.list(Some(&key)).next().await,
            false => None,
        };
        let error = match listed {
            Some(Err(listed)) if is_no_bucket(&listed) => listed,
            _ => error,
        };
        Err(self.problem(&self.pattern, error))
    }

    async fn fetch(&self, object: &ObjectMeta, cache_dir: &Path) -> Result<DataPath> {
        let key = object.location.as_ref();
        let name = PathBuf::from(self.url(key));
        let folder = cache_dir.join("objects").join(self.identity(object));
        let local = folder.join(object.location.filename().unwrap_or("object"));
        self.context.locks.create_and_lock(&folder).map_err(Error::io(&folder, "create"))?;
        let part = local.with_added_extension("part");
        let open = || File::options().create(true).append(true).open(&part);
        // Other runs that want the same object wait here and then find it.
        let mut file = open().map_err(Error::io(&part, "create"))?;
        while file.try_lock().is_err_and(|error| matches!(error, TryLockError::WouldBlock)) {
            tokio::time::sleep(LOOK).await;
        }
        if fs::metadata(&local).is_ok_and(|found| found.len() == object.size) {
            let _ = fs::remove_file(&part);
            return Ok(DataPath { name, local });
        }
        self.download(object, &mut file, &part).await?;
        file.sync_all().map_err(Error::io(&part, "write"))?;
        fs::rename(&part, &local).map_err(Error::io(&local, "create"))?;
        Ok(DataPath { name, local })
    }

    /// Appends to `file` what it lacks of the object.
    async fn download(&self, object: &ObjectMeta, file: &mut File, part: &Path) -> Result<()> {
        let there = file.metadata().map_err(Error::io(part, "look at"))?.len();
        let start = if there > object.size { 0 } else { there };
        file.set_len(start).map_err(Error::io(part, "write"))?;
        require_space(part, object.size - start, "the object that is fetched")?;
        let chunks = (start..object.size).step_by(CHUNK_BYTES as usize).map(|chunk| {
            let range = chunk..(chunk + CHUNK_BYTES).min(object.size);
            self.chunk(object, range)
        });
        let mut chunks = stream::iter(chunks).buffered(CHUNKS_AT_ONCE);
        let (url, mut there) = (self.url(object.location.as_ref()), start);
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk?;
            file.write_all(&chunk).map_err(Error::io(part, "write"))?;
            there += chunk.len() as u64;
            self.context.progressed(&url, there, object.size);
        }
        Ok(())
    }

    async fn chunk(&self, object: &ObjectMeta, range: Range<u64>) -> Result<Vec<u8>> {
        let mut tried = 0;
        loop {
            tried += 1;
            let options = GetOptions {
                if_match: object.e_tag.clone(),
                range: Some(range.clone().into()),
                ..GetOptions::default()
            };
            let answer = self.store.get_opts(&object.location, options).await;
            let wanted = range.end - range.start;
            let body = match answer {
                Ok(answer) => at_most(answer, wanted + 1).await,
                Err(error) => Err(error),
            };
            match body {
                Ok(bytes) if bytes.len() as u64 == wanted => return Ok(bytes),
                Err(error) if tried == TRIES || !may_pass(&error) => {
                    return Err(self.problem(object.location.as_ref(), error));
                }
                Ok(_) if tried == TRIES => {
                    let url = self.url(object.location.as_ref());
                    return Err(problem(&url, ObjectProblem::Changed));
                }
                _ => tokio::time::sleep(PAUSE * 2u32.pow(tried)).await,
            }
        }
    }

    /// Stands for the content of an object.
    fn identity(&self, object: &ObjectMeta) -> String {
        let version = match &object.e_tag {
            Some(e_tag) => e_tag.clone(),
            None => object.last_modified.to_rfc3339(),
        };
        let parts = [&self.endpoint, &self.name, object.location.as_ref(), &version];
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        hasher.update(&object.size.to_le_bytes()).finalize().to_hex()[..32].to_owned()
    }

    fn url(&self, key: &str) -> String {
        format!("{SCHEME}{}/{key}", self.name)
    }

    fn problem(&self, key: &str, error: object_store::Error) -> Error {
        problem(&self.url(key), ObjectProblem::of(error))
    }
}

/// The first bytes of a body, of which a server may send more than it was asked for.
async fn at_most(answer: GetResult, limit: u64) -> object_store::Result<Vec<u8>> {
    let (mut body, mut bytes) = (answer.into_stream(), Vec::new());
    while let Some(part) = body.next().await.transpose()? {
        bytes.extend_from_slice(&part);
        if bytes.len() as u64 >= limit {
            break;
        }
    }
    Ok(bytes)
}

impl ObjectProblem {
    fn of(error: object_store::Error) -> Self {
        use object_store::Error as Store;
        match error {
            error if is_no_bucket(&error) => Self::NoBucket,
            Store::NotFound { .. } => Self::NotFound,
            Store::PermissionDenied { .. } => Self::Denied,
            Store::Unauthenticated { .. } => Self::Unauthenticated,
            Store::Precondition { .. } => Self::Changed,
            other => Self::Failed { message: error_chain(&other) },
        }
    }
}

fn problem(url: &str, problem: ObjectProblem) -> Error {
    Error::Object { url: url.to_owned(), problem: Box::new(problem) }
}

/// Returns true if another attempt may succeed.
fn may_pass(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::Generic { .. })
}
