//! A raw lock of `lock_api` that tells a watcher of each lock, wait and unlock.
//!
//! The raw lock below decides who holds the lock. The watcher is safe code that is told of it, and
//! cannot reach the raw lock. So the guards of `lock_api`, which rely on the raw lock to exclude
//! other threads, can rely on this one.
//!
//! ```text
//! lock      token ── try ── got it ─▶ locked(access, token)
//!                        └─ held ───▶ wait(access, token, the blocking call)
//! unlock    unlocking or leaving ── unlock
//! ```

use std::time::{Duration, Instant};

use parking_lot::lock_api;

/// The access to a value that a lock gives a thread.
#[derive(Clone, Copy, Debug)]
pub enum Access {
    /// A mutex.
    Mutex,
    /// A reader-writer lock, alone.
    Write,
    /// The same, for a reader that gives its part up.
    Upgrade,
    /// A part of a reader-writer lock, beside other readers.
    Read,
}

/// Code that is told of each step of a lock.
pub trait LockWatch {
    /// The watcher of a lock that has no name.
    const INIT: Self;

    /// Identifies the thread that is about to lock.
    type Token: Copy;

    /// Returns the token of the calling thread.
    fn token() -> Self::Token;

    /// The calling thread holds the lock now.
    fn locked(&self, access: Access, token: Self::Token);

    /// The calling thread, which has not got the lock at once, waits by `block`. That returns
    /// whether the thread has the lock.
    fn wait(&self, access: Access, token: Self::Token, block: impl FnOnce() -> bool) -> bool;

    /// The calling thread, the only holder, is about to let others in.
    fn unlocking(&self);

    /// The calling thread, which may be one of several holders, is about to let others in.
    fn leaving(&self);

    /// The calling thread, which may be one of several holders, is about to wait for the others.
    fn hide(&self, token: Self::Token);

    /// The calling thread, which was [hidden](Self::hide), has still its part of the lock.
    fn show(&self, token: Self::Token);
}

/// A raw lock with a watcher.
#[derive(Debug)]
pub struct Watched<R, W> {
    raw: R,
    watch: W,
}

impl<R, W: LockWatch> Watched<R, W> {
    /// Makes a lock of a raw one that nobody holds.
    pub(crate) const fn new(raw: R, watch: W) -> Self {
        Self { raw, watch }
    }

    /// Locks by `attempt` alone.
    #[inline(always)]
    fn attempt(&self, access: Access, attempt: impl FnOnce(&R) -> bool) -> bool {
        self.acquire_timed(access, attempt, || true, |_| false)
    }

    /// Locks by `attempt`, or else by `block`, which waits.
    #[inline(always)]
    fn acquire(
        &self,
        access: Access,
        attempt: impl FnOnce(&R) -> bool,
        block: impl FnOnce(&R) -> bool,
    ) -> bool {
        self.acquire_timed(access, attempt, || false, block)
    }

    /// Locks by `attempt`, or else by `block`, which waits, if the time is not over.
    #[inline(always)]
    fn acquire_timed(
        &self,
        access: Access,
        attempt: impl FnOnce(&R) -> bool,
        is_over: impl FnOnce() -> bool,
        block: impl FnOnce(&R) -> bool,
    ) -> bool {
        // Taken before the lock, whose atomic operation then hides it.
        let token = W::token();
        if attempt(&self.raw) {
            self.watch.locked(access, token);
            return true;
        }
        !is_over() && self.blocked(access, token, block)
    }

    #[cold]
    #[inline(never)]
    fn blocked(&self, access: Access, token: W::Token, block: impl FnOnce(&R) -> bool) -> bool {
        self.watch.wait(access, token, || block(&self.raw))
    }

    /// Waits by `block` until the calling thread, which may upgrade, is alone.
    #[cold]
    #[inline(never)]
    fn upgrade_blocked(&self, block: impl FnOnce(&R) -> bool) -> bool {
        let token = W::token();
        // It does not wait for itself.
        self.watch.hide(token);
        let is_upgraded = self.blocked(Access::Upgrade, token, block);
        if !is_upgraded {
            self.watch.show(token);
        }
        is_upgraded
    }

    /// Keeps a part of the lock by `downgrade` and lets others in.
    #[inline]
    fn keep_part(&self, downgrade: impl FnOnce(&R)) {
        downgrade(&self.raw);
        self.watch.locked(Access::Read, W::token());
    }
}

/// Returns whether a wait until then would end at once.
fn is_over(timeout: Instant) -> bool {
    timeout <= Instant::now()
}

#[expect(unsafe_code, reason = "the traits of raw locks are unsafe")]
mod raw {
    use super::*;

    // SAFETY: every lock and every unlock is one of `R`, which excludes other threads.
    unsafe impl<R: lock_api::RawMutex, W: LockWatch> lock_api::RawMutex for Watched<R, W> {
        const INIT: Self = Self::new(R::INIT, W::INIT);

        type GuardMarker = R::GuardMarker;

        #[inline]
        fn lock(&self) {
            self.acquire(Access::Mutex, R::try_lock, |raw| {
                raw.lock();
                true
            });
        }

        #[inline]
        fn try_lock(&self) -> bool {
            self.attempt(Access::Mutex, R::try_lock)
        }

        #[inline]
        unsafe fn unlock(&self) {
            self.watch.unlocking();
            // SAFETY: the caller holds the lock, which is that of `raw`.
            unsafe { self.raw.unlock() }
        }

        #[inline]
        fn is_locked(&self) -> bool {
            self.raw.is_locked()
        }
    }

    // SAFETY: as above.
    unsafe impl<R: lock_api::RawMutexFair, W: LockWatch> lock_api::RawMutexFair for Watched<R, W> {
        #[inline]
        unsafe fn unlock_fair(&self) {
            self.watch.unlocking();
            // SAFETY: the caller holds the lock, which is that of `raw`.
            unsafe { self.raw.unlock_fair() }
        }
    }

    // SAFETY: as above.
    unsafe impl<R, W: LockWatch> lock_api::RawMutexTimed for Watched<R, W>
    where
        R: lock_api::RawMutexTimed<Duration = Duration, Instant = Instant>,
    {
        type Duration = Duration;
        type Instant = Instant;

        #[inline]
        fn try_lock_for(&self, timeout: Duration) -> bool {
            let block = |raw: &R| raw.try_lock_for(timeout);
            self.acquire_timed(Access::Mutex, R::try_lock, || timeout.is_zero(), block)
        }

        #[inline]
        fn try_lock_until(&self, timeout: Instant) -> bool {
            let block = |raw: &R| raw.try_lock_until(timeout);
            self.acquire_timed(Access::Mutex, R::try_lock, || is_over(timeout), block)
        }
    }

    // SAFETY: every lock and every unlock is one of `R`, which excludes other threads.
    unsafe impl<R: lock_api::RawRwLock, W: LockWatch> lock_api::RawRwLock for Watched<R, W> {
        const INIT: Self = Self::new(R::INIT, W::INIT);

        type GuardMarker = R::GuardMarker;

        #[inline]
        fn lock_shared(&self) {
            self.acquire(Access::Read, R::try_lock_shared, |raw| {
                raw.lock_shared();
                true
            });
        }

        #[inline]
        fn try_lock_shared(&self) -> bool {
            self.attempt(Access::Read, R::try_lock_shared)
        }

        #[inline]
        unsafe fn unlock_shared(&self) {
            self.watch.leaving();
            // SAFETY: the caller holds a shared lock, which is that of `raw`.
            unsafe { self.raw.unlock_shared() }
        }

        #[inline]
        fn lock_exclusive(&self) {
            self.acquire(Access::Write, R::try_lock_exclusive, |raw| {
                raw.lock_exclusive();
                true
            });
        }

        #[inline]
        fn try_lock_exclusive(&self) -> bool {
            self.attempt(Access::Write, R::try_lock_exclusive)
        }

        #[inline]
        unsafe fn unlock_exclusive(&self) {
            self.watch.unlocking();
            // SAFETY: the caller holds the exclusive lock, which is that of `raw`.
            unsafe { self.raw.unlock_exclusive() }
        }

        #[inline]
        fn is_locked(&self) -> bool {
            self.raw.is_locked()
        }

        #[inline]
        fn is_locked_exclusive(&self) -> bool {
            self.raw.is_locked_exclusive()
        }
    }

    // SAFETY: as above.
    unsafe impl<R, W: LockWatch> lock_api::RawRwLockFair for Watched<R, W>
    where
        R: lock_api::RawRwLockFair,
    {
        #[inline]
        unsafe fn unlock_shared_fair(&self) {
            self.watch.leaving();
            // SAFETY: the caller holds a shared lock, which is that of `raw`.
            unsafe { self.raw.unlock_shared_fair() }
        }

        #[inline]
        unsafe fn unlock_exclusive_fair(&self) {
            self.watch.unlocking();
            // SAFETY: the caller holds the exclusive lock, which is that of `raw`.
            unsafe { self.raw.unlock_exclusive_fair() }
        }
    }

    // SAFETY: as above.
    unsafe impl<R, W: LockWatch> lock_api::RawRwLockDowngrade for Watched<R, W>
    where
        R: lock_api::RawRwLockDowngrade,
    {
        #[inline]
        unsafe fn downgrade(&self) {
            self.watch.unlocking();
            // SAFETY: the caller holds the exclusive lock, which is that of `raw`.
            self.keep_part(|raw| unsafe { raw.downgrade() });
        }
    }

    // SAFETY: as above.
    unsafe impl<R, W: LockWatch> lock_api::RawRwLockTimed for Watched<R, W>
    where
        R: lock_api::RawRwLockTimed<Duration = Duration, Instant = Instant>,
    {
        type Duration = Duration;
        type Instant = Instant;

        #[inline]
        fn try_lock_shared_for(&self, timeout: Duration) -> bool {
            let block = |raw: &R| raw.try_lock_shared_for(timeout);
            self.acquire_timed(
                Access::Read,
                R::try_lock_shared,
                || timeout.is_zero(),
                block,
            )
        }

        #[inline]
        fn try_lock_shared_until(&self, timeout: Instant) -> bool {
            let block = |raw: &R| raw.try_lock_shared_until(timeout);
            self.acquire_timed(Access::Read, R::try_lock_shared, || is_over(timeout), block)
        }

        #[inline]
        fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
            let block = |raw: &R| raw.try_lock_exclusive_for(timeout);
            self.acquire_timed(
                Access::Write,
                R::try_lock_exclusive,
                || timeout.is_zero(),
                block,
            )
        }

        #[inline]
        fn try_lock_exclusive_until(&self, timeout: Instant) -> bool {
            let block = |raw: &R| raw.try_lock_exclusive_until(timeout);
            self.acquire_timed(
                Access::Write,
                R::try_lock_exclusive,
                || is_over(timeout),
                block,
            )
        }
    }

    // SAFETY: as above.
    unsafe impl<R, W: LockWatch> lock_api::RawRwLockRecursive for Watched<R, W>
    where
        R: lock_api::RawRwLockRecursive,
    {
        #[inline]
        fn lock_shared_recursive(&self) {
            self.acquire(Access::Read, R::try_lock_shared_recursive, |raw| {
                raw.lock_shared_recursive();
                true
            });
        }

        #[inline]
        fn try_lock_shared_recursive(&self) -> bool {
            self.attempt(Access::Read, R::try_lock_shared_recursive)
        }
    }

    // SAFETY: as above.
    unsafe impl<R, W: LockWatch> lock_api::RawRwLockRecursiveTimed for Watched<R, W>
    where
        R: lock_api::RawRwLockRecursiveTimed<Duration = Duration, Instant = Instant>,
    {
        #[inline]
        fn try_lock_shared_recursive_for(&self, timeout: Duration) -> bool {
            let block = |raw: &R| raw.try_lock_shared_recursive_for(timeout);
            self.acquire_timed(
                Access::Read,
                R::try_lock_shared_recursive,
                || timeout.is_zero(),
                block,
            )
        }

        #[inline]
        fn try_lock_shared_recursive_until(&self, timeout: Instant) -> bool {
            let block = |raw: &R| raw.try_lock_shared_recursive_until(timeout);
            self.acquire_timed(
                Access::Read,
                R::try_lock_shared_recursive,
                || is_over(timeout),
                block,
            )
        }
    }

    // SAFETY: as above. A failed upgrade leaves the lock of `raw` as it was.
    unsafe impl<R, W: LockWatch> lock_api::RawRwLockUpgrade for Watched<R, W>
    where
        R: lock_api::RawRwLockUpgrade,
    {
        #[inline]
        fn lock_upgradable(&self) {
            self.acquire(Access::Read, R::try_lock_upgradable, |raw| {
                raw.lock_upgradable();
                true
            });
        }

        #[inline]
        fn try_lock_upgradable(&self) -> bool {
            self.attempt(Access::Read, R::try_lock_upgradable)
        }

        #[inline]
        unsafe fn unlock_upgradable(&self) {
            self.watch.leaving();
            // SAFETY: the caller holds the upgradable lock, which is that of `raw`.
            unsafe { self.raw.unlock_upgradable() }
        }

        #[inline]
        unsafe fn upgrade(&self) {
            // SAFETY: the caller holds the upgradable lock, which is that of `raw`.
            if self.attempt(Access::Upgrade, |raw| unsafe { raw.try_upgrade() }) {
                return;
            }
            self.upgrade_blocked(|raw| {
                // SAFETY: as above; the attempt has failed.
                unsafe { raw.upgrade() };
                true
            });
        }

        #[inline]
        unsafe fn try_upgrade(&self) -> bool {
            // SAFETY: the caller holds the upgradable lock, which is that of `raw`.
            self.attempt(Access::Upgrade, |raw| unsafe { raw.try_upgrade() })
        }
    }

    // SAFETY: as above.
    unsafe impl<R, W: LockWatch> lock_api::RawRwLockUpgradeFair for Watched<R, W>
    where
        R: lock_api::RawRwLockUpgradeFair,
    {
        #[inline]
        unsafe fn unlock_upgradable_fair(&self) {
            self.watch.leaving();
            // SAFETY: the caller holds the upgradable lock, which is that of `raw`.
            unsafe { self.raw.unlock_upgradable_fair() }
        }
    }

    // SAFETY: as above.
    unsafe impl<R, W: LockWatch> lock_api::RawRwLockUpgradeDowngrade for Watched<R, W>
    where
        R: lock_api::RawRwLockUpgradeDowngrade,
    {
        #[inline]
        unsafe fn downgrade_upgradable(&self) {
            self.watch.leaving();
            // SAFETY: the caller holds the upgradable lock, which is that of `raw`.
            self.keep_part(|raw| unsafe { raw.downgrade_upgradable() });
        }

        #[inline]
        unsafe fn downgrade_to_upgradable(&self) {
            self.watch.unlocking();
            // SAFETY: the caller holds the exclusive lock, which is that of `raw`.
            self.keep_part(|raw| unsafe { raw.downgrade_to_upgradable() });
        }
    }

    // SAFETY: as above. A failed upgrade leaves the lock of `raw` as it was.
    unsafe impl<R, W: LockWatch> lock_api::RawRwLockUpgradeTimed for Watched<R, W>
    where
        R: lock_api::RawRwLockUpgradeTimed<Duration = Duration, Instant = Instant>,
    {
        #[inline]
        fn try_lock_upgradable_for(&self, timeout: Duration) -> bool {
            let block = |raw: &R| raw.try_lock_upgradable_for(timeout);
            self.acquire_timed(
                Access::Read,
                R::try_lock_upgradable,
                || timeout.is_zero(),
                block,
            )
        }

        #[inline]
        fn try_lock_upgradable_until(&self, timeout: Instant) -> bool {
            let block = |raw: &R| raw.try_lock_upgradable_until(timeout);
            self.acquire_timed(
                Access::Read,
                R::try_lock_upgradable,
                || is_over(timeout),
                block,
            )
        }

        #[inline]
        unsafe fn try_upgrade_for(&self, timeout: Duration) -> bool {
            // SAFETY: the caller holds the upgradable lock, which is that of `raw`.
            let is_upgraded = self.attempt(Access::Upgrade, |raw| unsafe { raw.try_upgrade() });
            if is_upgraded || timeout.is_zero() {
                return is_upgraded;
            }
            // SAFETY: as above; the attempt has failed.
            self.upgrade_blocked(|raw| unsafe { raw.try_upgrade_for(timeout) })
        }

        #[inline]
        unsafe fn try_upgrade_until(&self, timeout: Instant) -> bool {
            // SAFETY: the caller holds the upgradable lock, which is that of `raw`.
            let is_upgraded = self.attempt(Access::Upgrade, |raw| unsafe { raw.try_upgrade() });
            if is_upgraded || is_over(timeout) {
                return is_upgraded;
            }
            // SAFETY: as above; the attempt has failed.
            self.upgrade_blocked(|raw| unsafe { raw.try_upgrade_until(timeout) })
        }
    }
}
