//! Turns at a limited resource: addresses alternate, the accounts of an address alternate, and the requests of each
//! account are served in order.
//!
//! A semaphore serves requests in order of arrival, so a client with a thousand requests would delay all others. The
//! address comes first because anyone may claim any account; API servers, which ask for all accounts, have few.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// For whom a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claimant {
    pub(crate) address: IpAddr,
    /// A hash of the name of the account that sent the request to the API server.
    pub(crate) account: u64,
}

/// A limited number of turns.
#[derive(Debug)]
pub(crate) struct Turns {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    waiting: Alternating<IpAddr, Alternating<u64, VecDeque<oneshot::Sender<Turn>>>>,
}

/// Queues that take turns.
#[derive(Debug)]
struct Alternating<K, Q> {
    queues: BTreeMap<K, Q>,
    /// The keys of the queues, in the order in which they are served next.
    order: VecDeque<K>,
}

impl<K, Q> Default for Alternating<K, Q> {
    fn default() -> Alternating<K, Q> {
        Alternating { queues: BTreeMap::new(), order: VecDeque::new() }
    }
}

impl<K: Copy + Ord, Q: Default> Alternating<K, Q> {
    /// The queue of a key, which is served last if it is new.
    fn queue(&mut self, key: K) -> &mut Q {
        self.queues.entry(key).or_insert_with(|| {
            self.order.push_back(key);
            Q::default()
        })
    }

    /// Takes an item from the next queue. `take` returns the item, and whether more are left.
    fn next<T>(&mut self, take: impl Fn(&mut Q) -> (Option<T>, bool)) -> (Option<T>, bool) {
        while let Some(key) = self.order.pop_front() {
            let Some(queue) = self.queues.get_mut(&key) else { continue };
            let (item, more) = take(queue);
            if more {
                self.order.push_back(key);
            } else {
                self.queues.remove(&key);
            }
            if item.is_some() {
                return (item, !self.order.is_empty());
            }
        }
        (None, false)
    }
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    /// `None` if the turn was handed on.
    turns: Option<Arc<Turns>>,
}

impl Turns {
    pub(crate) fn new(free: usize) -> Arc<Turns> {
        let state = State { free, waiting: Alternating::default() };
        Arc::new(Turns { state: Mutex::new(state) })
    }

    pub(crate) async fn wait(self: &Arc<Turns>, claimant: Claimant) -> Turn {
        let receiver = {
            let mut state = self.lock();
            if state.free > 0 {
                state.free -= 1;
                return Turn { turns: Some(Arc::clone(self)) };
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.queue(claimant.address).queue(claimant.account).push_back(sender);
            receiver
        };
        // Senders are dropped with `self` alone, which is borrowed here.
        receiver.await.unwrap_or(Turn { turns: None })
    }

    /// Hands a turn to the next waiting request.
    fn release(self: Arc<Turns>) {
        loop {
            let Some(next) = self.lock().next() else { return };
            match next.send(Turn { turns: Some(Arc::clone(&self)) }) {
                Ok(()) => return,
                // The request no longer waits for it.
                Err(mut turn) => drop(turn.turns.take()),
            }
        }
    }

    /// A poisoned lock is usable: a panic loses at most one turn.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The next waiting request; without one, the turn becomes free.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let of_account = |queue: &mut VecDeque<_>| (queue.pop_front(), !queue.is_empty());
        let (next, _) = self.waiting.next(|accounts| accounts.next(of_account));
        self.free += usize::from(next.is_none());
        next
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.turns.take() {
            turns.release();
        }
    }
}

#[cfg(test)]
impl Turns {
    pub(crate) fn free(&self) -> usize {
        self.lock().free
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn address(last: u8) -> Claimant {
        Claimant { address: IpAddr::from([10, 0, 0, last]), account: 0 }
    }

    /// The order in which claimants, which all wait, are served.
    async fn order(claimants: &[(u8, u64)]) -> Vec<(u8, u64)> {
        let turns = Turns::new(1);
        let first = turns.wait(address(1)).await;
        let served: Arc<Mutex<Vec<(u8, u64)>>> = Arc::default();
        let mut tasks = Vec::new();
        for (last, account) in claimants.iter().copied() {
            let (turns, served) = (Arc::clone(&turns), Arc::clone(&served));
            tasks.push(tokio::spawn(async move {
                let turn = turns.wait(Claimant { account, ..address(last) }).await;
                served.lock().unwrap().push((last, account));
                drop(turn);
            }));
            tokio::task::yield_now().await;
        }
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(turns.free(), 1);
        let served = served.lock().unwrap();
        served.clone()
    }

    #[tokio::test]
    async fn addresses_take_turns_and_so_do_the_accounts_of_each() {
        let addresses = [(1, 0), (1, 0), (1, 0), (2, 0), (2, 0), (3, 0)];
        assert_eq!(order(&addresses).await, [(1, 0), (2, 0), (3, 0), (1, 0), (2, 0), (1, 0)]);
        let accounts = [(1, 7), (1, 7), (1, 7), (1, 8), (2, 7), (1, 9)];
        assert_eq!(order(&accounts).await, [(1, 7), (2, 7), (1, 8), (1, 9), (1, 7), (1, 7)]);
    }

    #[tokio::test]
    async fn who_gives_up_is_passed_over_and_no_turn_is_lost() {
        let turns = Turns::new(1);
        let held = turns.wait(address(1)).await;
        for _ in 0..3 {
            let gives_up = tokio::time::timeout(Duration::from_millis(1), turns.wait(address(2))).await;
            assert!(gives_up.is_err());
        }
        let mut waits = Box::pin(turns.wait(address(2)));
        assert!(futures::poll!(waits.as_mut()).is_pending());
        drop(held);
        drop(waits.await);
        assert_eq!(turns.free(), 1);
        // A turn that was handed over but not received.
        let held = turns.wait(address(1)).await;
        let mut waits = Box::pin(turns.wait(address(2)));
        assert!(futures::poll!(waits.as_mut()).is_pending());
        drop(held);
        drop(waits);
        assert_eq!(turns.free(), 1);
    }
}
