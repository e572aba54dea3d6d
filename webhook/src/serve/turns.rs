//! Turns at a limited resource: addresses alternate, and the requests of each address are served in order.
//!
//! A semaphore serves requests in order of arrival, so a client with a thousand requests would delay all others.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// A limited number of turns.
#[derive(Debug)]
pub(crate) struct Turns {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    waiting: BTreeMap<IpAddr, VecDeque<oneshot::Sender<Turn>>>,
    /// The waiting addresses, in the order in which they are served next.
    order: VecDeque<IpAddr>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    /// `None` if the turn was handed on.
    turns: Option<Arc<Turns>>,
}

impl Turns {
    pub(crate) fn new(free: usize) -> Arc<Turns> {
        let state = State { free, waiting: BTreeMap::new(), order: VecDeque::new() };
        Arc::new(Turns { state: Mutex::new(state) })
    }

    pub(crate) async fn wait(self: &Arc<Turns>, address: IpAddr) -> Turn {
        let receiver = {
            let mut state = self.lock();
            if state.free > 0 {
                state.free -= 1;
                return Turn { turns: Some(Arc::clone(self)) };
            }
            let (sender, receiver) = oneshot::channel();
            let queue = state.waiting.entry(address).or_default();
            queue.push_back(sender);
            if queue.len() == 1 {
                state.order.push_back(address);
            }
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
        while let Some(address) = self.order.pop_front() {
            let Some(queue) = self.waiting.get_mut(&address) else { continue };
            let next = queue.pop_front();
            if queue.is_empty() {
                self.waiting.remove(&address);
            } else {
                self.order.push_back(address);
            }
            if next.is_some() {
                return next;
            }
        }
        self.free += 1;
        None
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

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[tokio::test]
    async fn addresses_take_turns() {
        let turns = Turns::new(1);
        let first = turns.wait(address(1)).await;
        let served: Arc<Mutex<Vec<u8>>> = Arc::default();
        let mut tasks = Vec::new();
        for last in [1, 1, 1, 2, 2, 3] {
            let (turns, served) = (Arc::clone(&turns), Arc::clone(&served));
            tasks.push(tokio::spawn(async move {
                let turn = turns.wait(address(last)).await;
                served.lock().unwrap().push(last);
                drop(turn);
            }));
            tokio::task::yield_now().await;
        }
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*served.lock().unwrap(), [1, 2, 3, 1, 2, 1]);
        assert_eq!(turns.free(), 1);
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
