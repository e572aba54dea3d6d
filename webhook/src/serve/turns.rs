//! Turns at a limited resource. The next one goes to the address whose turns have taken the least time, and there to the
//! account with the least.
//!
//! A semaphore serves requests in order of arrival, so a client with a thousand requests would delay all others; turns
//! that alternate by number let one whose objects are expensive have nearly all of the time. The address comes first
//! because anyone may claim any account; API servers, which ask for all accounts, have few.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// For whom a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Claimant {
    pub(crate) address: IpAddr,
    /// A hash of the name of the account that sent the request to the API server.
    pub(crate) account: u64,
}

/// A limited number of turns.
#[derive(Debug)]
pub(crate) struct Turns {
    state: Mutex<State<oneshot::Sender<Turn>>>,
}

/// `W` is how a waiting request is told of its turn.
#[derive(Debug)]
struct State<W> {
    free: usize,
    /// In order of arrival.
    waiting: Vec<(Claimant, W)>,
    addresses: HashMap<IpAddr, Usage>,
    accounts: HashMap<Claimant, Usage>,
}

/// The use that an address or an account has made of turns. It is forgotten when none of its requests waits or has a
/// turn.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    time: Duration,
    /// Number of requests that wait or have a turn.
    requests: usize,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    /// `None` if the turn was handed on.
    turns: Option<Arc<Turns>>,
    claimant: Claimant,
    began: Instant,
}

impl Turns {
    pub(crate) fn new(free: usize) -> Arc<Turns> {
        Arc::new(Turns { state: Mutex::new(State::new(free)) })
    }

    pub(crate) async fn wait(self: &Arc<Turns>, claimant: Claimant) -> Turn {
        let receiver = {
            let mut state = self.lock();
            state.enter(claimant);
            if state.free > 0 {
                state.free -= 1;
                return self.turn(claimant);
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.push((claimant, sender));
            receiver
        };
        // Senders are dropped with `self` alone, which is borrowed here.
        receiver.await.unwrap_or(Turn { turns: None, claimant, began: Instant::now() })
    }

    fn turn(self: &Arc<Turns>, claimant: Claimant) -> Turn {
        Turn { turns: Some(Arc::clone(self)), claimant, began: Instant::now() }
    }

    /// Hands a turn to the next waiting request.
    fn release(self: &Arc<Turns>, claimant: Claimant, took: Duration) {
        self.lock().leave(claimant, took);
        loop {
            let Some((next, sender)) = self.lock().next() else { return };
            match sender.send(self.turn(next)) {
                Ok(()) => return,
                // The request no longer waits for it.
                Err(mut turn) => {
                    drop(turn.turns.take());
                    self.lock().leave(next, Duration::ZERO);
                }
            }
        }
    }

    /// A poisoned lock is usable: a panic loses at most one turn.
    fn lock(&self) -> MutexGuard<'_, State<oneshot::Sender<Turn>>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W> State<W> {
    fn new(free: usize) -> State<W> {
        State { free, waiting: Vec::new(), addresses: HashMap::new(), accounts: HashMap::new() }
    }

    /// Counts a request that waits. Who is new begins with the least time that others have used, so that having waited
    /// long is no advantage.
    fn enter(&mut self, claimant: Claimant) {
        let least = self.addresses.values().map(|usage| usage.time).min();
        count(&mut self.addresses, claimant.address, least);
        let of_address = self.accounts.iter().filter(|(other, _)| other.address == claimant.address);
        let least = of_address.map(|(_, usage)| usage.time).min();
        count(&mut self.accounts, claimant, least);
    }

    /// Counts a request that gives its turn back or no longer waits.
    fn leave(&mut self, claimant: Claimant, took: Duration) {
        uncount(&mut self.addresses, claimant.address, took);
        uncount(&mut self.accounts, claimant, took);
    }

    /// The request that is next, the earlier one of equals; without one, the turn becomes free.
    fn next(&mut self) -> Option<(Claimant, W)> {
        let of_address = |claimant: &Claimant| self.addresses.get(&claimant.address).map(|usage| usage.time);
        let of_account = |claimant: &Claimant| self.accounts.get(claimant).map(|usage| usage.time);
        let address = self.waiting.iter().map(|(claimant, _)| claimant).min_by_key(|one| of_address(one));
        let next = address.map(|claimant| claimant.address).and_then(|address| {
            let waiting = self.waiting.iter().enumerate().filter(|(_, (one, _))| one.address == address);
            waiting.min_by_key(|(_, (one, _))| of_account(one)).map(|(position, _)| position)
        });
        self.free += usize::from(next.is_none());
        next.map(|position| self.waiting.remove(position))
    }
}

fn count<K: Eq + Hash>(usages: &mut HashMap<K, Usage>, key: K, least: Option<Duration>) {
    let new = Usage { time: least.unwrap_or_default(), requests: 0 };
    usages.entry(key).or_insert(new).requests += 1;
}

fn uncount<K: Copy + Eq + Hash>(usages: &mut HashMap<K, Usage>, key: K, took: Duration) {
    let Some(usage) = usages.get_mut(&key) else { return };
    usage.time += took;
    usage.requests -= 1;
    if usage.requests == 0 {
        usages.remove(&key);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.turns.take() {
            turns.release(self.claimant, self.began.elapsed());
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
    use super::*;

    fn claimant(address: u8, account: u64) -> Claimant {
        Claimant { address: IpAddr::from([10, 0, 0, address]), account }
    }

    /// The order in which requests that all wait are served at one turn. Each is an address, an account, and the
    /// milliseconds that it takes.
    fn order(requests: &[(u8, u64, u64)]) -> Vec<(u8, u64)> {
        let mut state = State::new(0);
        for &(address, account, took) in requests {
            state.enter(claimant(address, account));
            state.waiting.push((claimant(address, account), (address, account, took)));
        }
        let mut served = Vec::new();
        while let Some((claimant, (address, account, took))) = state.next() {
            served.push((address, account));
            state.leave(claimant, Duration::from_millis(took));
        }
        assert_eq!(state.free, 1);
        assert!(state.addresses.is_empty() && state.accounts.is_empty());
        served
    }

    #[test]
    fn equal_requests_of_addresses_and_accounts_alternate() {
        let addresses = [(1, 0, 5), (1, 0, 5), (1, 0, 5), (2, 0, 5), (2, 0, 5), (3, 0, 5)];
        assert_eq!(order(&addresses), [(1, 0), (2, 0), (3, 0), (1, 0), (2, 0), (1, 0)]);
        let accounts = [(1, 7, 5), (1, 7, 5), (1, 7, 5), (1, 8, 5), (2, 7, 5), (1, 9, 5)];
        assert_eq!(order(&accounts), [(1, 7), (2, 7), (1, 8), (1, 9), (1, 7), (1, 7)]);
    }

    #[test]
    fn short_requests_pass_the_long_ones_of_others() {
        let addresses = [(1, 0, 900), (1, 0, 900), (2, 0, 3), (2, 0, 3), (2, 0, 3)];
        assert_eq!(order(&addresses), [(1, 0), (2, 0), (2, 0), (2, 0), (1, 0)]);
        let accounts = [(1, 7, 900), (1, 7, 900), (1, 8, 3), (1, 8, 3), (1, 8, 3)];
        assert_eq!(order(&accounts), [(1, 7), (1, 8), (1, 8), (1, 8), (1, 7)]);
    }

    #[test]
    fn who_is_new_has_no_advantage_over_those_who_wait() {
        let mut state = State::new(0);
        for (address, name) in [(1, "a"), (1, "b")] {
            state.enter(claimant(address, 0));
            state.waiting.push((claimant(address, 0), name));
        }
        let (first, name) = state.next().unwrap();
        state.leave(first, Duration::from_secs(60));
        assert_eq!(name, "a");
        state.enter(claimant(2, 0));
        state.waiting.push((claimant(2, 0), "c"));
        assert_eq!(state.next().map(|(_, name)| name), Some("b"));
    }

    #[tokio::test]
    async fn who_gives_up_is_passed_over_and_no_turn_is_lost() {
        let turns = Turns::new(1);
        let held = turns.wait(claimant(1, 0)).await;
        for _ in 0..3 {
            let gives_up = tokio::time::timeout(Duration::from_millis(1), turns.wait(claimant(2, 0))).await;
            assert!(gives_up.is_err());
        }
        let mut waits = Box::pin(turns.wait(claimant(2, 0)));
        assert!(futures::poll!(waits.as_mut()).is_pending());
        drop(held);
        drop(waits.await);
        assert_eq!(turns.free(), 1);
        // A turn that was handed over but not received.
        let held = turns.wait(claimant(1, 0)).await;
        let mut waits = Box::pin(turns.wait(claimant(2, 0)));
        assert!(futures::poll!(waits.as_mut()).is_pending());
        drop(held);
        drop(waits);
        assert_eq!(turns.free(), 1);
        assert!(turns.lock().addresses.is_empty());
    }
}
