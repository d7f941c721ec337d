//! The methods that the ends of bounded and unbounded channels share.

/// Defines what the receivers of both kinds of channels have in common.
macro_rules! receiver {
    ($receiver:ident) => {
        impl<T, F: Track> $receiver<T, F> {
            /// Receives the next message, and waits until it comes. Returns `None` if all senders
            /// are gone, or the channel is closed, and all messages are received.
            pub async fn recv(&mut self) -> Option<T> {
                let received = match poll_once(|context| self.inner.poll_recv(context)).await {
                    Poll::Ready(received) => received,
                    Poll::Pending => {
                        let awaited = super::message(&self.link.info);
                        let poll = |context: &mut Context<'_>, has_waited: bool| {
                            let polled = self.inner.poll_recv(context);
                            if let (true, Poll::Ready(Some(message))) = (has_waited, &polled) {
                                message.end_wait();
                            }
                            polled
                        };
                        poll_waiting(awaited, poll).await
                    }
                };
                received.map(|message| self.open(message))
            }

            /// Receives up to `limit` messages that are there, and waits for the first one. Returns
            /// how many it has appended to `buffer`, 0 as [`recv`](Self::recv) returns `None`.
            pub async fn recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
                let mut taken = Vec::new();
                let (inner, all) = (&mut self.inner, &mut taken);
                let poll = poll_once(|context| inner.poll_recv_many(context, all, limit));
                if poll.await.is_pending() {
                    let awaited = super::message(&self.link.info);
                    let poll = |context: &mut Context<'_>, has_waited: bool| {
                        let polled = self.inner.poll_recv_many(context, &mut taken, limit);
                        if let (true, Some(message)) = (has_waited, taken.first()) {
                            message.end_wait();
                        }
                        polled
                    };
                    poll_waiting(awaited, poll).await;
                }
                self.open_all(taken, buffer)
            }

            /// Receives the next message if it is there.
            ///
            /// # Errors
            ///
            /// Returns an error if it is not there, or if all senders are gone.
            pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
                self.inner.try_recv().map(|message| self.open(message))
            }

            /// Receives as [`recv`](Self::recv) does, and blocks the thread. The wait is a scope of
            /// the thread.
            ///
            /// # Panics
            ///
            /// Panics in a task of a runtime, whose thread must not be blocked.
            #[track_caller]
            pub fn blocking_recv(&mut self) -> Option<T> {
                let scope = self.must_wait().then(|| self.link.wait());
                let received = self.inner.blocking_recv();
                if let (Some(_), Some(message)) = (&scope, &received) {
                    message.end_wait();
                }
                drop(scope);
                received.map(|message| self.open(message))
            }

            /// Receives as [`recv_many`](Self::recv_many) does, and blocks the thread. The wait is
            /// a scope of the thread.
            ///
            /// # Panics
            ///
            /// Panics in a task of a runtime, whose thread must not be blocked.
            #[track_caller]
            pub fn blocking_recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
                let must_wait = limit > 0 && self.must_wait();
                let scope = must_wait.then(|| self.link.wait());
                let mut taken = Vec::new();
                self.inner.blocking_recv_many(&mut taken, limit);
                if let (Some(_), Some(message)) = (&scope, taken.first()) {
                    message.end_wait();
                }
                drop(scope);
                self.open_all(taken, buffer)
            }

            #[inline(always)]
            fn open(&self, message: Message<T, F>) -> T {
                self.link.count_some(1);
                message.receive()
            }

            /// Opens messages that were received, and returns their number.
            fn open_all(&self, taken: Vec<Message<T, F>>, buffer: &mut Vec<T>) -> usize {
                let messages = taken.len();
                self.link.count_some(messages);
                buffer.extend(taken.into_iter().map(Message::receive));
                messages
            }

            fn must_wait(&self) -> bool {
                self.inner.is_empty() && !self.inner.is_closed()
            }

            /// Polls for a message. The wait is not recorded.
            pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
                let polled = self.inner.poll_recv(context);
                polled.map(|received| received.map(|message| self.open(message)))
            }

            /// Polls for messages. The wait is not recorded.
            pub fn poll_recv_many(
                &mut self,
                context: &mut Context<'_>,
                buffer: &mut Vec<T>,
                limit: usize,
            ) -> Poll<usize> {
                let mut taken = Vec::new();
                let polled = self.inner.poll_recv_many(context, &mut taken, limit);
                polled.map(|_| self.open_all(taken, buffer))
            }

            /// Closes the channel: nothing can be sent any more. Messages that were sent can be
            /// received.
            pub fn close(&mut self) {
                self.inner.close();
            }

            /// Returns whether all senders are gone or the channel is closed.
            #[must_use]
            pub fn is_closed(&self) -> bool {
                self.inner.is_closed()
            }

            /// Returns whether no message is there.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.inner.is_empty()
            }

            /// Returns the number of messages that are there.
            #[must_use]
            pub fn len(&self) -> usize {
                self.inner.len()
            }

            /// Returns the number of senders, without the weak ones.
            #[must_use]
            pub fn sender_strong_count(&self) -> usize {
                self.inner.sender_strong_count()
            }

            /// Returns the number of weak senders.
            #[must_use]
            pub fn sender_weak_count(&self) -> usize {
                self.inner.sender_weak_count()
            }
        }

        impl<T, F> std::fmt::Debug for $receiver<T, F> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($receiver))
                    .finish_non_exhaustive()
            }
        }
    };
}

/// Defines what the senders of both kinds of channels have in common.
macro_rules! sender {
    ($sender:ident, $weak:ident) => {
        impl<T, F: Track> $sender<T, F> {
            /// Waits until the receiver is gone or has closed the channel. This wait is not
            /// recorded.
            pub async fn closed(&self) {
                self.inner.closed().await;
            }

            /// Returns whether the receiver is gone or has closed the channel.
            #[must_use]
            pub fn is_closed(&self) -> bool {
                self.inner.is_closed()
            }

            /// Returns whether two senders are of the same channel.
            #[must_use]
            pub fn same_channel(&self, other: &Self) -> bool {
                self.inner.same_channel(&other.inner)
            }

            /// Makes a sender that does not keep the channel open.
            #[must_use]
            pub fn downgrade(&self) -> $weak<T, F> {
                $weak {
                    inner: self.inner.downgrade(),
                    info: Arc::clone(&self.link.info),
                }
            }

            /// Returns the number of senders, without the weak ones.
            #[must_use]
            pub fn strong_count(&self) -> usize {
                self.inner.strong_count()
            }

            /// Returns the number of weak senders.
            #[must_use]
            pub fn weak_count(&self) -> usize {
                self.inner.weak_count()
            }
        }

        impl<T, F: Track> $weak<T, F> {
            /// Makes a sender that keeps the channel open, unless all senders are gone.
            #[must_use]
            pub fn upgrade(&self) -> Option<$sender<T, F>> {
                Some($sender {
                    inner: self.inner.upgrade()?,
                    link: SenderLink::new(&self.info),
                })
            }

            /// Returns the number of senders, without the weak ones.
            #[must_use]
            pub fn strong_count(&self) -> usize {
                self.inner.strong_count()
            }

            /// Returns the number of weak senders.
            #[must_use]
            pub fn weak_count(&self) -> usize {
                self.inner.weak_count()
            }
        }

        impl<T, F> Clone for $sender<T, F> {
            fn clone(&self) -> Self {
                Self {
                    inner: self.inner.clone(),
                    link: self.link.clone(),
                }
            }
        }

        impl<T, F> Clone for $weak<T, F> {
            fn clone(&self) -> Self {
                Self {
                    inner: self.inner.clone(),
                    info: Arc::clone(&self.info),
                }
            }
        }

        impl<T, F> std::fmt::Debug for $sender<T, F> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($sender)).finish_non_exhaustive()
            }
        }

        impl<T, F> std::fmt::Debug for $weak<T, F> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($weak)).finish_non_exhaustive()
            }
        }
    };
}
