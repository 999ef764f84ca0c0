//! Response streams with a limit on slow readers. A stream whose reader reads nothing for a while
//! ends with an error, so that it holds neither a task nor a subscription.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::control::error::Error;

/// How long a channel may stay full.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// The daemon's end of a stream of messages.
#[derive(Clone)]
pub(super) struct Sender<T> {
    channel: mpsc::Sender<Result<T, Status>>,
    timed_out: Arc<AtomicBool>,
}

/// The client's end.
pub(crate) struct Messages<T> {
    channel: mpsc::Receiver<Result<T, Status>>,
    timed_out: Arc<AtomicBool>,
}

/// The reader has disconnected, or is too slow.
#[derive(Debug)]
pub(super) struct Closed;

/// Creates a stream that holds at most `capacity` unread messages.
pub(super) fn channel<T>(capacity: usize) -> (Sender<T>, Messages<T>) {
    let (sender, receiver) = mpsc::channel(capacity);
    let timed_out = Arc::new(AtomicBool::new(false));
    (
        Sender { channel: sender, timed_out: timed_out.clone() },
        Messages { channel: receiver, timed_out },
    )
}

/// Creates a stream of what `feed` sends, until the client disconnects or the daemon closes.
pub(super) fn fed<T, W>(
    closing: CancellationToken,
    capacity: usize,
    feed: impl FnOnce(Sender<T>) -> W,
) -> Messages<T>
where
    T: Clone + Send + 'static,
    W: Future<Output = Result<(), Error>> + Send + 'static,
{
    let (sender, receiver) = channel(capacity);
    let fed = feed(sender.clone());
    tokio::spawn(async move {
        tokio::select! {
            // The client has disconnected.
            () = sender.closed() => {}
            () = closing.cancelled() => {
                let _ = sender.send(Err(Error::ShuttingDown.into())).await;
            }
            result = fed => if let Err(error) = result {
                let _ = sender.send(Err(error.into())).await;
            }
        }
    });
    receiver
}

/// The size of a message beyond which it waits until those before it are read.
const SMALL_BYTES_MAX: usize = 16 << 10;

impl<T: prost::Message> Sender<T> {
    /// Sends a message that may be large. A channel holds one of them at most.
    pub(super) async fn send_of_any_size(&self, message: T) -> Result<(), Closed> {
        if message.encoded_len() <= SMALL_BYTES_MAX {
            return self.send(Ok(message)).await;
        }
        let all = self.channel.max_capacity();
        match tokio::time::timeout(READ_TIMEOUT, self.channel.reserve_many(all)).await {
            Ok(permits) => {
                let permit = permits.map_err(|_| Closed)?.next().ok_or(Closed)?;
                permit.send(Ok(message));
                Ok(())
            }
            Err(_) => {
                self.timed_out.store(true, Ordering::Release);
                Err(Closed)
            }
        }
    }
}

impl<T> Sender<T> {
    pub(super) async fn send(&self, message: Result<T, Status>) -> Result<(), Closed> {
        self.send_within(READ_TIMEOUT, message).await
    }

    async fn send_within(
        &self,
        timeout: Duration,
        message: Result<T, Status>,
    ) -> Result<(), Closed> {
        match tokio::time::timeout(timeout, self.channel.send(message)).await {
            Ok(sent) => sent.map_err(|_| Closed),
            Err(_) => {
                self.timed_out.store(true, Ordering::Release);
                Err(Closed)
            }
        }
    }

    /// Resolves when the reader disconnects.
    pub(super) async fn closed(&self) {
        self.channel.closed().await;
    }
}

impl<T> Stream for Messages<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.channel.poll_recv(context);
        // The channel ends regularly unless the reader was too slow.
        match next {
            Poll::Ready(None) if self.timed_out.swap(false, Ordering::AcqRel) => {
                Poll::Ready(Some(Err(Error::SlowReader.into())))
            }
            next => next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_stream::StreamExt;

    #[tokio::test]
    async fn a_stalled_reader_gets_an_error() {
        let (sender, mut messages) = channel(1);
        let brief = Duration::from_millis(1);
        assert!(sender.send_within(brief, Ok(1)).await.is_ok());
        assert!(sender.send_within(brief, Ok(2)).await.is_err());
        drop(sender);
        assert_eq!(messages.next().await.unwrap().unwrap(), 1);
        let error = messages.next().await.unwrap().unwrap_err();
        assert_eq!(error.code(), tonic::Code::ResourceExhausted);
        assert!(messages.next().await.is_none());
    }

    #[tokio::test]
    async fn large_messages_wait_for_those_before_them() {
        use traind_proto::v1::GetJobRequest;
        let (sender, mut messages) = channel(4);
        let message = |bytes| GetJobRequest { job_id: "x".repeat(bytes) };
        sender.send_of_any_size(message(1)).await.unwrap();
        let mut large = std::pin::pin!(sender.send_of_any_size(message(1 << 20)));
        assert!(futures_util::poll!(&mut large).is_pending());
        messages.next().await.unwrap().unwrap();
        large.await.unwrap();
        sender.send_of_any_size(message(1)).await.unwrap();
        let mut second = std::pin::pin!(sender.send_of_any_size(message(1 << 20)));
        assert!(futures_util::poll!(&mut second).is_pending());
    }

    #[tokio::test]
    async fn a_stream_ends_with_its_sender() {
        let (sender, mut messages) = channel(1);
        sender.send(Ok(1)).await.unwrap();
        drop(sender);
        assert_eq!(messages.next().await.unwrap().unwrap(), 1);
        assert!(messages.next().await.is_none());
    }
}
