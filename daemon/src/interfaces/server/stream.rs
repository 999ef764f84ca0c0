//! Sending to a client that may not read: a stream whose reader takes nothing for a while is
//! cut off with an error, so that it holds neither a task nor a subscription.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::Status;

use crate::control::error::Error;

/// How long a reader may leave a full channel alone.
const PATIENCE: Duration = Duration::from_secs(60);

/// The daemon's end of a stream of messages.
#[derive(Clone)]
pub(super) struct Sender<T> {
    channel: mpsc::Sender<Result<T, Status>>,
    cut: Arc<AtomicBool>,
}

/// The client's end.
pub(crate) struct Messages<T> {
    channel: mpsc::Receiver<Result<T, Status>>,
    cut: Arc<AtomicBool>,
}

/// The reader left, or takes nothing.
#[derive(Debug)]
pub(super) struct Gone;

/// A stream that holds at most `capacity` messages that were not read.
pub(super) fn channel<T>(capacity: usize) -> (Sender<T>, Messages<T>) {
    let (sender, receiver) = mpsc::channel(capacity);
    let cut = Arc::new(AtomicBool::new(false));
    (Sender { channel: sender, cut: cut.clone() }, Messages { channel: receiver, cut })
}

impl<T> Sender<T> {
    pub(super) async fn send(&self, message: Result<T, Status>) -> Result<(), Gone> {
        self.send_within(PATIENCE, message).await
    }

    async fn send_within(
        &self,
        patience: Duration,
        message: Result<T, Status>,
    ) -> Result<(), Gone> {
        match tokio::time::timeout(patience, self.channel.send(message)).await {
            Ok(sent) => sent.map_err(|_| Gone),
            Err(_) => {
                self.cut.store(true, Ordering::Release);
                Err(Gone)
            }
        }
    }

    /// Resolves when the reader leaves.
    pub(super) async fn closed(&self) {
        self.channel.closed().await;
    }
}

impl<T> Stream for Messages<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.channel.poll_recv(context);
        // The end of the channel is a proper end unless the reader was cut off.
        match next {
            Poll::Ready(None) if self.cut.swap(false, Ordering::AcqRel) => {
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
    async fn a_reader_that_takes_nothing_is_cut_off_and_told() {
        let (sender, mut messages) = channel(1);
        let brief = Duration::from_millis(1);
        assert!(sender.send_within(brief, Ok(1)).await.is_ok());
        assert!(sender.send_within(brief, Ok(2)).await.is_err());
        drop(sender);
        assert_eq!(messages.next().await.unwrap().unwrap(), 1);
        let told = messages.next().await.unwrap().unwrap_err();
        assert_eq!(told.code(), tonic::Code::ResourceExhausted);
        assert!(messages.next().await.is_none());
    }

    #[tokio::test]
    async fn a_stream_that_ends_ends() {
        let (sender, mut messages) = channel(1);
        sender.send(Ok(1)).await.unwrap();
        drop(sender);
        assert_eq!(messages.next().await.unwrap().unwrap(), 1);
        assert!(messages.next().await.is_none());
    }
}
