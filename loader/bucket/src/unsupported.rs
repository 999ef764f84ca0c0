//! The calls of a build without buckets, all of which are refused.

use std::path::Path;

use super::{Error, Keep, Location, Object, Problem, Result};

/// A location in a bucket, of which there is none.
#[derive(Debug)]
pub struct Bucket {
    location: Location,
}

/// The upload of a file, of which there is none.
#[derive(Debug)]
pub struct Upload;

impl Bucket {
    /// Refuses the location.
    pub fn open(location: Location) -> Result<Self> {
        Err(unsupported(&location))
    }

    /// The location.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Refuses the location.
    pub fn check(&self, _keep: Keep<'_>) -> Result<()> {
        Err(unsupported(&self.location))
    }

    /// Refuses the location.
    pub fn list(&self, _folder: &str, _keep: Keep<'_>) -> Result<Vec<Object>> {
        Err(unsupported(&self.location))
    }

    /// Refuses the location.
    pub fn read(&self, _name: &str, _bytes_max: u64, _keep: Keep<'_>) -> Result<Option<Vec<u8>>> {
        Err(unsupported(&self.location))
    }

    /// Refuses the location.
    pub fn write(&self, _name: &str, _content: Vec<u8>, _keep: Keep<'_>) -> Result<()> {
        Err(unsupported(&self.location))
    }

    /// Refuses the location.
    pub fn create(&self, _name: &str, _content: Vec<u8>, _keep: Keep<'_>) -> Result<bool> {
        Err(unsupported(&self.location))
    }

    /// Refuses the location.
    pub fn remove(&self, _name: &str, _keep: Keep<'_>) -> Result<()> {
        Err(unsupported(&self.location))
    }

    /// Refuses the location.
    pub fn download(&self, _object: &Object, _path: &Path, _keep: Keep<'_>) -> Result<()> {
        Err(unsupported(&self.location))
    }
}

impl Upload {
    /// Plans nothing.
    pub fn new(_path: &Path, _name: &str) -> std::io::Result<Self> {
        Ok(Self)
    }

    /// Zero.
    pub fn bytes(&self) -> u64 {
        0
    }

    /// Refuses the location.
    pub fn send(&mut self, bucket: &Bucket, _keep: Keep<'_>) -> Result<()> {
        Err(unsupported(&bucket.location))
    }

    /// Refuses the location.
    pub fn abort(self, bucket: &Bucket, _keep: Keep<'_>) -> Result<()> {
        Err(unsupported(&bucket.location))
    }
}

fn unsupported(location: &Location) -> Error {
    Error { url: location.to_string(), problem: Box::new(Problem::Unsupported) }
}
