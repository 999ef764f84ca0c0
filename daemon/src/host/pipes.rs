//! Pipes from processes that the daemon started. They are read to their ends whatever is kept, since a process that
//! finds its pipe full waits, and one that finds it closed may fail.

use std::io::{self, ErrorKind, Read};

use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes that are read at a time.
const CHUNK: usize = 8 << 10;

/// Reads a pipe to its end, and keeps the beginning.
pub(crate) async fn beginning(
    pipe: Option<impl AsyncRead + Unpin>,
    most: u64,
) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    let Some(pipe) = pipe else { return Ok(kept) };
    let mut pipe = pipe.take(most);
    pipe.read_to_end(&mut kept).await?;
    tokio::io::copy(&mut pipe.into_inner(), &mut tokio::io::sink()).await?;
    Ok(kept)
}

/// Reads a pipe to its end, and keeps the last bytes, which say why a process failed.
pub(crate) async fn end(pipe: Option<impl AsyncRead + Unpin>, most: usize) -> io::Result<Vec<u8>> {
    let (mut kept, mut chunk) = (Vec::new(), [0; CHUNK]);
    let Some(mut pipe) = pipe else { return Ok(kept) };
    loop {
        let read = pipe.read(&mut chunk).await?;
        if read == 0 {
            return Ok(kept);
        }
        kept.extend_from_slice(&chunk[..read]);
        kept.drain(..kept.len().saturating_sub(most));
    }
}

/// Reads a pipe to its end, and keeps the last bytes. Blocks.
pub(crate) fn end_blocking(pipe: Option<impl Read>, most: usize) -> io::Result<Vec<u8>> {
    let (mut kept, mut chunk) = (Vec::new(), [0; CHUNK]);
    let Some(mut pipe) = pipe else { return Ok(kept) };
    loop {
        let read = match pipe.read(&mut chunk) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            return Ok(kept);
        }
        kept.extend_from_slice(&chunk[..read]);
        kept.drain(..kept.len().saturating_sub(most));
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// Writes more than the pipe holds, which ends only if all is read.
    async fn written<T>(read: impl AsyncFnOnce(tokio::io::DuplexStream) -> T) -> T {
        let (mut writer, reader) = tokio::io::duplex(16);
        let write = async move {
            writer.write_all(b"first\n").await.unwrap();
            writer.write_all(&[b'x'; 100]).await.unwrap();
            writer.write_all(b"\nlast").await.unwrap();
        };
        tokio::join!(read(reader), write).0
    }

    #[tokio::test]
    async fn pipes_are_read_to_their_ends() {
        let first = written(async |pipe| beginning(Some(pipe), 5).await).await;
        assert_eq!(first.unwrap(), b"first");
        let last = written(async |pipe| end(Some(pipe), 4).await).await;
        assert_eq!(last.unwrap(), b"last");
        assert_eq!(end_blocking(Some(&b"first, last"[..]), 4).unwrap(), b"last");
    }
}
