//! The methods that the ends of several kinds of channels have in common.

/// Declares the receiver of a channel of the crate or module `$lib`, without `recv`, and its
/// iterators. `$Counts` counts the messages that were received.
macro_rules! receiver {
    (
        $(#[$meta:meta])*
        $lib:path, $Counts:ty
    ) => {
        use $lib as receiver_lib;

        $(#[$meta])*
        ///
        /// A thread that finds the channel empty while recording is on opens a scope
        /// `wait: NAME to receive` until a message comes.
        pub struct Receiver<T, F = Untracked> {
            inner: receiver_lib::Receiver<Message<T, F>>,
            link: ReceiverLink<$Counts>,
        }

        /// The messages of a [`Receiver`], for which it waits. Made by [`Receiver::iter`].
        pub struct Iter<'a, T: 'a, F: 'a = Untracked> {
            receiver: &'a Receiver<T, F>,
        }

        /// The messages of a [`Receiver`] that are there. Made by [`Receiver::try_iter`].
        pub struct TryIter<'a, T: 'a, F: 'a = Untracked> {
            receiver: &'a Receiver<T, F>,
        }

        /// The messages of a [`Receiver`], for which it waits, by the receiver itself.
        pub struct IntoIter<T, F = Untracked> {
            receiver: Receiver<T, F>,
        }

        impl<T, F: Track> Receiver<T, F> {
            /// Receives a message if there is one.
            ///
            /// # Errors
            ///
            /// Returns an error if the channel is empty, or if in addition all senders are gone.
            #[inline]
            pub fn try_recv(&self) -> Result<T, TryRecvError> {
                self.inner.try_recv().map(|message| self.open(message))
            }

            /// Receives a message, and waits until there is one, but no longer than about
            /// `timeout`.
            ///
            /// # Errors
            ///
            /// Returns an error if the time is over, or if the channel is empty and all senders are
            /// gone.
            #[inline]
            pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
                let block = |inner: &receiver_lib::Receiver<_>| inner.recv_timeout(timeout);
                self.recv_timed(|| timeout.is_zero(), block)
            }

            #[inline(always)]
            fn recv_timed(
                &self,
                is_over: impl FnOnce() -> bool,
                block: impl FnOnce(
                    &receiver_lib::Receiver<Message<T, F>>,
                ) -> Result<Message<T, F>, RecvTimeoutError>,
            ) -> Result<T, RecvTimeoutError> {
                match self.try_recv() {
                    Ok(message) => Ok(message),
                    Err(TryRecvError::Disconnected) => Err(RecvTimeoutError::Disconnected),
                    Err(TryRecvError::Empty) if is_over() => Err(RecvTimeoutError::Timeout),
                    Err(TryRecvError::Empty) => self.recv_blocked(block),
                }
            }

            /// Receives by `block`, which waits.
            #[cold]
            #[inline(never)]
            fn recv_blocked<E>(
                &self,
                block: impl FnOnce(
                    &receiver_lib::Receiver<Message<T, F>>,
                ) -> Result<Message<T, F>, E>,
            ) -> Result<T, E> {
                let wait = self.link.wait();
                let received = block(&self.inner);
                // The arrow of a flow ends in the scope around the wait, and passes through the
                // wait on its way.
                if let Ok(message) = &received {
                    message.end_wait();
                }
                drop(wait);
                received.map(|message| self.open(message))
            }

            #[inline(always)]
            fn open(&self, message: Message<T, F>) -> T {
                self.link.count();
                message.receive()
            }

            /// Returns the messages, for which the iterator waits. It ends when all senders are
            /// gone.
            pub fn iter(&self) -> Iter<'_, T, F> {
                Iter { receiver: self }
            }

            /// Returns the messages that are there. The iterator ends when the channel is empty.
            pub fn try_iter(&self) -> TryIter<'_, T, F> {
                TryIter { receiver: self }
            }
        }

        impl<T, F: Track> Iterator for Iter<'_, T, F> {
            type Item = T;

            fn next(&mut self) -> Option<T> {
                self.receiver.recv().ok()
            }
        }

        impl<T, F: Track> Iterator for TryIter<'_, T, F> {
            type Item = T;

            fn next(&mut self) -> Option<T> {
                self.receiver.try_recv().ok()
            }
        }

        impl<T, F: Track> Iterator for IntoIter<T, F> {
            type Item = T;

            fn next(&mut self) -> Option<T> {
                self.receiver.recv().ok()
            }
        }

        impl<'a, T, F: Track> IntoIterator for &'a Receiver<T, F> {
            type Item = T;
            type IntoIter = Iter<'a, T, F>;

            fn into_iter(self) -> Iter<'a, T, F> {
                self.iter()
            }
        }

        impl<T, F: Track> IntoIterator for Receiver<T, F> {
            type Item = T;
            type IntoIter = IntoIter<T, F>;

            fn into_iter(self) -> IntoIter<T, F> {
                IntoIter { receiver: self }
            }
        }

        shown_as_the_inner! { Receiver }
        shown_without_content! { Iter<'_, T, F> TryIter<'_, T, F> IntoIter<T, F> }
    };
}

/// Declares a sender that may find a channel full, over `$inner`, without `send`.
macro_rules! blocking_sender {
    (
        $(#[$meta:meta])*
        $Sender:ident, $inner:path, $Counts:ty
    ) => {
        use $inner as InnerSender;

        $(#[$meta])*
        ///
        /// A thread that finds the channel full while recording is on opens a scope
        /// `wait: NAME to send` until there is room.
        pub struct $Sender<T, F = Untracked> {
            link: SenderLink<$Counts>,
            inner: InnerSender<Message<T, F>>,
        }

        impl<T, F: Track> $Sender<T, F> {
            /// Sends by `block`, which waits.
            #[cold]
            #[inline(never)]
            fn send_blocked<E>(
                &self,
                block: impl FnOnce(&InnerSender<Message<T, F>>) -> Result<(), E>,
            ) -> Result<(), E> {
                let _wait = self.link.wait();
                let is_counted = self.link.count_offer();
                block(&self.inner)?;
                if !is_counted {
                    self.link.count();
                }
                Ok(())
            }

            /// Sends a message if there is room for it.
            ///
            /// # Errors
            ///
            /// Returns the message in an error if the channel is full or all receivers are gone.
            #[inline]
            pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
                match self.inner.try_send(Message::new(message)) {
                    Ok(()) => {
                        self.link.count();
                        Ok(())
                    }
                    Err(TrySendError::Disconnected(message)) => {
                        Err(TrySendError::Disconnected(message.into_inner()))
                    }
                    Err(TrySendError::Full(message)) => {
                        Err(TrySendError::Full(message.into_inner()))
                    }
                }
            }
        }

        cloned_with_the_link! { $Sender }
        shown_as_the_inner! { $Sender }
    };
}

/// Declares `send` of a sender, which tries to send before it waits.
macro_rules! sends_by_trying {
    ($Sender:ident) => {
        impl<T, F: Track> $Sender<T, F> {
            /// Sends a message, and waits until there is room for it.
            ///
            /// # Errors
            ///
            /// Returns the message in an error if all receivers are gone.
            #[inline]
            pub fn send(&self, message: T) -> Result<(), SendError<T>> {
                match self.inner.try_send(Message::new(message)) {
                    Ok(()) => {
                        self.link.count();
                        Ok(())
                    }
                    Err(TrySendError::Disconnected(message)) => {
                        Err(SendError(message.into_inner()))
                    }
                    Err(TrySendError::Full(message)) => self
                        .send_blocked(|inner| inner.send(message))
                        .map_err(|SendError(message)| SendError(message.into_inner())),
                }
            }
        }
    };
}

/// Declares `recv` of a receiver, which tries to receive before it waits. `$gone` is the error if
/// there will be no message.
#[cfg(any(
    feature = "flume",
    all(feature = "crossbeam", target_arch = "wasm32", target_os = "unknown")
))]
macro_rules! receives_by_trying {
    ($gone:expr) => {
        impl<T, F: Track> Receiver<T, F> {
            /// Receives a message, and waits until there is one.
            ///
            /// # Errors
            ///
            /// Returns an error if the channel is empty and all senders are gone.
            #[inline]
            pub fn recv(&self) -> Result<T, RecvError> {
                match self.try_recv() {
                    Ok(message) => Ok(message),
                    Err(TryRecvError::Disconnected) => Err($gone),
                    Err(TryRecvError::Empty) => self.recv_blocked(receiver_lib::Receiver::recv),
                }
            }
        }
    };
}

macro_rules! cloned_with_the_link {
    ($End:ident) => {
        impl<T, F> Clone for $End<T, F> {
            fn clone(&self) -> Self {
                Self {
                    inner: self.inner.clone(),
                    link: self.link.clone(),
                }
            }
        }
    };
}

macro_rules! shown_without_content {
    ($($Name:ident<$($argument:tt),*>)*) => {$(
        impl<T, F> fmt::Debug for $Name<$($argument),*> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($Name)).finish_non_exhaustive()
            }
        }
    )*};
}

macro_rules! shown_as_the_inner {
    ($End:ident) => {
        impl<T, F> fmt::Debug for $End<T, F> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.inner.fmt(f)
            }
        }
    };
}

/// Declares the channels of a crate whose channels have several receivers, without `send` and
/// `recv`: `$lib` with the name `$crate_name`.
#[cfg(any(feature = "crossbeam", feature = "flume"))]
macro_rules! channels_of_many_receivers {
    ($crate_name:literal, $module:literal, $lib:path, $lib_sender:path) => {
        use std::fmt;
        use std::panic::Location;
        use std::time::{Duration, Instant};

        use super::depth::Lanes;
        use super::link::{ReceiverLink, SenderLink, link, link_without_room};
        use super::message::{Message, Track, Tracked, Untracked};
        use crate::hot::named_site::ValueName;

        blocking_sender! {
            #[doc = concat!(
                "The sending end of a channel, with the interface of `", $crate_name, "::Sender`."
            )]
            Sender, $lib_sender, Lanes
        }

        receiver! {
            #[doc = concat!(
                "The receiving end of a channel, with the interface of `", $crate_name,
                "::Receiver`."
            )]
            $lib, Lanes
        }

        /// Makes an unbounded channel, whose name is the place of this call.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!(
            "# mod vor { pub mod sync { pub use vor_recorder::locks::channel::", $module, "; } }"
        )]
        #[doc = concat!("use vor::sync::", $module, " as channel;")]
        ///
        /// let (sender, receiver) = channel::unbounded();
        /// sender.send(3).unwrap();
        /// assert_eq!(receiver.clone().recv(), Ok(3));
        /// ```
        #[must_use]
        #[track_caller]
        pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
            linked(link(ValueName::Place(Location::caller())), receiver_lib::unbounded())
        }

        /// Makes a channel with room for `bound` messages, whose name is the place of this call.
        /// Without room, a message is sent when it is received.
        #[must_use]
        #[track_caller]
        pub fn bounded<T>(bound: usize) -> (Sender<T>, Receiver<T>) {
            limited(ValueName::Place(Location::caller()), bound)
        }

        /// Makes an unbounded channel with a name.
        ///
        /// # Examples
        ///
        /// ```
        #[doc = concat!(
            "# mod vor { pub mod sync { pub use vor_recorder::locks::channel::", $module, "; } }"
        )]
        #[doc = concat!("use vor::sync::", $module, " as channel;")]
        ///
        /// let (sender, receiver) = channel::named("jobs");
        /// let worker = std::thread::spawn(move || receiver.iter().sum::<u32>());
        /// (1..=3).for_each(|job| sender.send(job).unwrap());
        /// drop(sender);
        /// assert_eq!(worker.join().unwrap(), 6);
        /// ```
        #[must_use]
        pub fn named<T>(name: &'static str) -> (Sender<T>, Receiver<T>) {
            linked(link(ValueName::Named(name)), receiver_lib::unbounded())
        }

        /// Makes a channel with a name and room for `bound` messages.
        #[must_use]
        pub fn bounded_named<T>(name: &'static str, bound: usize) -> (Sender<T>, Receiver<T>) {
            limited(ValueName::Named(name), bound)
        }

        /// Makes an unbounded channel with a name, whose messages have flows.
        #[must_use]
        pub fn named_with_flows<T>(
            name: &'static str,
        ) -> (Sender<T, Tracked>, Receiver<T, Tracked>) {
            linked(link(ValueName::Named(name)), receiver_lib::unbounded())
        }

        /// Makes a channel with a name and room for `bound` messages, which have flows.
        #[must_use]
        pub fn bounded_named_with_flows<T>(
            name: &'static str,
            bound: usize,
        ) -> (Sender<T, Tracked>, Receiver<T, Tracked>) {
            limited(ValueName::Named(name), bound)
        }

        fn limited<T, F>(name: ValueName, bound: usize) -> (Sender<T, F>, Receiver<T, F>) {
            let links = match bound {
                0 => link_without_room(name),
                _ => link(name),
            };
            linked(links, receiver_lib::bounded(bound))
        }

        fn linked<T, F>(
            (sender_link, receiver_link): (SenderLink<Lanes>, ReceiverLink<Lanes>),
            (sender, receiver): (
                InnerSender<Message<T, F>>,
                receiver_lib::Receiver<Message<T, F>>,
            ),
        ) -> (Sender<T, F>, Receiver<T, F>) {
            let sender = Sender {
                inner: sender,
                link: sender_link,
            };
            let receiver = Receiver {
                inner: receiver,
                link: receiver_link,
            };
            (sender, receiver)
        }

        impl<T, F: Track> Sender<T, F> {
            /// Sends a message, and waits until there is room for it, but no longer than about
            /// `timeout`.
            ///
            /// # Errors
            ///
            /// Returns the message in an error if the time is over or all receivers are gone.
            #[inline]
            pub fn send_timeout(
                &self,
                message: T,
                timeout: Duration,
            ) -> Result<(), SendTimeoutError<T>> {
                self.send_timed(
                    message,
                    || timeout.is_zero(),
                    |inner, message| inner.send_timeout(message, timeout),
                )
            }

            /// Sends a message, and waits until there is room for it, but no longer than until
            /// `deadline`.
            ///
            /// # Errors
            ///
            /// Returns the message in an error if the time is over or all receivers are gone.
            #[inline]
            pub fn send_deadline(
                &self,
                message: T,
                deadline: Instant,
            ) -> Result<(), SendTimeoutError<T>> {
                self.send_timed(
                    message,
                    || deadline <= Instant::now(),
                    |inner, message| inner.send_deadline(message, deadline),
                )
            }

            #[inline(always)]
            fn send_timed(
                &self,
                message: T,
                is_over: impl FnOnce() -> bool,
                block: impl FnOnce(
                    &InnerSender<Message<T, F>>,
                    Message<T, F>,
                ) -> Result<(), SendTimeoutError<Message<T, F>>>,
            ) -> Result<(), SendTimeoutError<T>> {
                let sent = match self.inner.try_send(Message::new(message)) {
                    Ok(()) => {
                        self.link.count();
                        return Ok(());
                    }
                    Err(TrySendError::Disconnected(message)) => {
                        Err(SendTimeoutError::Disconnected(message))
                    }
                    Err(TrySendError::Full(message)) if is_over() => {
                        Err(SendTimeoutError::Timeout(message))
                    }
                    Err(TrySendError::Full(message)) => {
                        self.send_blocked(|inner| block(inner, message))
                    }
                };
                sent.map_err(|error| match error {
                    SendTimeoutError::Timeout(message) => {
                        SendTimeoutError::Timeout(message.into_inner())
                    }
                    SendTimeoutError::Disconnected(message) => {
                        SendTimeoutError::Disconnected(message.into_inner())
                    }
                })
            }

            /// Makes a message for an operation of the [inner](Self::as_inner) sender, whose result
            /// goes to [`sent`](Self::sent).
            pub fn message(&self, value: T) -> Message<T, F> {
                Message::new(value)
            }

            /// Counts a message that the [inner](Self::as_inner) sender has sent, and returns the
            /// result with the value in place of the message.
            ///
            /// # Errors
            ///
            /// Returns the error if the message was not sent.
            pub fn sent(
                &self,
                sent: Result<(), SendError<Message<T, F>>>,
            ) -> Result<(), SendError<T>> {
                match sent {
                    Ok(()) => {
                        self.link.count();
                        Ok(())
                    }
                    Err(SendError(message)) => Err(SendError(message.into_inner())),
                }
            }
        }

        impl<T, F: Track> Receiver<T, F> {
            /// Receives a message, and waits until there is one, but no longer than until
            /// `deadline`.
            ///
            /// # Errors
            ///
            /// Returns an error if the time is over, or if the channel is empty and all senders are
            /// gone.
            #[inline]
            pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
                let block = |inner: &receiver_lib::Receiver<_>| inner.recv_deadline(deadline);
                self.recv_timed(|| deadline <= Instant::now(), block)
            }

            /// Opens and counts a message that the [inner](Self::as_inner) receiver has received.
            ///
            /// # Errors
            ///
            /// Returns the error if there was no message.
            pub fn received<E>(&self, received: Result<Message<T, F>, E>) -> Result<T, E> {
                received.map(|message| self.open(message))
            }
        }

        cloned_with_the_link! { Receiver }

        state_of_a_channel! { Sender, InnerSender<Message<T, F>> }
        state_of_a_channel! { Receiver, receiver_lib::Receiver<Message<T, F>> }
    };
}

/// Declares the methods of an end of a channel that do not change it.
#[cfg(any(feature = "crossbeam", feature = "flume"))]
macro_rules! state_of_a_channel {
    ($End:ident, $Inner:ty) => {
        impl<T, F> $End<T, F> {
            /// Returns whether the channel has no message.
            pub fn is_empty(&self) -> bool {
                self.inner.is_empty()
            }

            /// Returns whether the channel has no room. One without any room is always full.
            pub fn is_full(&self) -> bool {
                self.inner.is_full()
            }

            /// Returns the number of messages in the channel.
            pub fn len(&self) -> usize {
                self.inner.len()
            }

            /// Returns the number of messages for which the channel has room, if it is bounded.
            pub fn capacity(&self) -> Option<usize> {
                self.inner.capacity()
            }

            /// Returns whether both belong to one channel.
            pub fn same_channel(&self, other: &Self) -> bool {
                self.inner.same_channel(&other.inner)
            }

            /// Returns the end below, for operations that this one lacks, such as a selection.
            /// They open no scope.
            pub fn as_inner(&self) -> &$Inner {
                &self.inner
            }
        }
    };
}
