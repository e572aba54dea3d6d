//! The connected clients, and the resources of each: connections, bytes of bodies and responses, reviews.
//!
//! Anyone who can reach the admission port may open connections and send slowly, send much, or never read a response.
//! Each connection and each address therefore has a limited share of the resources, so that none can exhaust what the
//! API servers need.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{LARGE_BODY_RATE, Limits};

/// How far an address may be ahead of [`LARGE_BODY_RATE`], so that a single large body is read at once.
const AHEAD: Duration = Duration::from_millis(200);

/// All clients of a listener.
#[derive(Debug)]
pub(crate) struct Peers {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    connections: usize,
    bytes: usize,
    reviews: usize,
    addresses: BTreeMap<IpAddr, Used>,
}

/// The resources of an address.
#[derive(Debug, Default)]
struct Used {
    connections: usize,
    bytes: usize,
    reviews: usize,
    /// The time at which all received bytes of large bodies would have arrived at [`LARGE_BODY_RATE`].
    paced: Option<Instant>,
}

/// A client's connection. It counts as open until it and all its rooms and reviews are dropped.
#[derive(Debug)]
pub(crate) struct Peer {
    peers: Arc<Peers>,
    address: IpAddr,
    /// Bytes that are held for this connection.
    bytes: Mutex<usize>,
}

impl Peers {
    pub(crate) fn new(limits: Limits) -> Arc<Peers> {
        Arc::new(Peers { limits, state: Mutex::default() })
    }

    /// Registers a new connection of an address; `None` if the address has reached its limit.
    pub(crate) fn connect(self: &Arc<Peers>, address: IpAddr) -> Option<Arc<Peer>> {
        // An IPv4 client of an IPv6 socket is the same client.
        let address = address.to_canonical();
        let mut state = self.lock();
        let used = state.addresses.entry(address).or_default();
        if used.connections >= (self.limits.connections / 4).max(1) {
            return None;
        }
        used.connections += 1;
        state.connections += 1;
        Some(Arc::new(Peer { peers: Arc::clone(self), address, bytes: Mutex::new(0) }))
    }

    /// Whether the limit of connections is nearly reached.
    pub(crate) fn are_crowded(&self) -> bool {
        4 * self.lock().connections >= 3 * self.limits.connections
    }

    /// A poisoned lock is usable: numbers are changed by single additions.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peer {
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Room for bytes that the server holds because of this connection, initially empty.
    pub(crate) fn room(self: &Arc<Peer>) -> Room {
        Room { peer: Arc::clone(self), bytes: 0 }
    }

    /// Counts a review that is running or waiting; `None` if there are too many.
    pub(crate) fn review(self: &Arc<Peer>) -> Option<Review> {
        let most = self.peers.limits.reviews;
        let mut state = self.peers.lock();
        let of_all = state.reviews;
        let used = state.addresses.get_mut(&self.address)?;
        if of_all >= most || used.reviews >= most.div_ceil(2) {
            return None;
        }
        used.reviews += 1;
        state.reviews += 1;
        Some(Review { peer: Arc::clone(self) })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let mut state = self.peers.lock();
        state.connections = state.connections.saturating_sub(1);
        if let Some(used) = state.addresses.get_mut(&self.address) {
            used.connections = used.connections.saturating_sub(1);
            // Rooms and reviews keep their `Peer`, so nothing else is used when its last connection ends.
            if used.connections == 0 {
                state.addresses.remove(&self.address);
            }
        }
    }
}

/// Bytes that are held for a connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    peer: Arc<Peer>,
    bytes: usize,
}

impl Room {
    /// Takes room for more bytes. Returns false and takes nothing if the connection, its address or all clients
    /// together would hold too much.
    pub(crate) fn grow(&mut self, more: usize) -> bool {
        let most = self.peer.peers.limits.held;
        let mut own = self.peer.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.peer.peers.lock();
        let of_all = state.bytes.saturating_add(more);
        let Some(used) = state.addresses.get_mut(&self.peer.address) else {
            return false;
        };
        let (of_connection, of_address) = (own.saturating_add(more), used.bytes.saturating_add(more));
        if of_connection > most / 4 || of_address > most / 2 || of_all > most {
            return false;
        }
        *own = of_connection;
        used.bytes = of_address;
        state.bytes = of_all;
        self.bytes += more;
        true
    }
}

impl Room {
    /// Counts bytes of a large body; returns how long to wait before more of it is read.
    pub(crate) fn pace(&self, bytes: usize) -> Duration {
        let now = Instant::now();
        let mut state = self.peer.peers.lock();
        let Some(used) = state.addresses.get_mut(&self.peer.address) else {
            return Duration::ZERO;
        };
        let takes = Duration::from_secs_f64(bytes as f64 / LARGE_BODY_RATE as f64);
        let arrived = used.paced.map_or(now, |paced| paced.max(now)) + takes;
        used.paced = Some(arrived);
        (arrived - now).saturating_sub(AHEAD)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut own = self.peer.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        *own = own.saturating_sub(self.bytes);
        let mut state = self.peer.peers.lock();
        state.bytes = state.bytes.saturating_sub(self.bytes);
        if let Some(used) = state.addresses.get_mut(&self.peer.address) {
            used.bytes = used.bytes.saturating_sub(self.bytes);
        }
    }
}

/// A review that is running or waiting, until it is dropped.
#[derive(Debug)]
pub(crate) struct Review {
    peer: Arc<Peer>,
}

impl Drop for Review {
    fn drop(&mut self) {
        let mut state = self.peer.peers.lock();
        state.reviews = state.reviews.saturating_sub(1);
        if let Some(used) = state.addresses.get_mut(&self.peer.address) {
            used.reviews = used.reviews.saturating_sub(1);
        }
    }
}

#[cfg(test)]
impl Peers {
    /// Bytes and reviews in use.
    pub(crate) fn used(&self) -> (usize, usize) {
        let state = self.lock();
        (state.bytes, state.reviews)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers() -> Arc<Peers> {
        Peers::new(Limits { held: 1000, reviews: 4, connections: 8, ..Limits::default() })
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn an_address_has_a_share_of_the_connections() {
        let peers = peers();
        let held = [(); 2].map(|()| peers.connect(address(1)).unwrap());
        assert!(peers.connect(address(1)).is_none());
        assert!(peers.connect("::ffff:10.0.0.1".parse().unwrap()).is_none(), "the same address");
        assert!(peers.connect(address(2)).is_some());
        drop(held);
        assert!(peers.connect(address(1)).is_some());
        assert!(peers.lock().addresses.is_empty(), "who left is forgotten");
    }

    #[test]
    fn a_connection_an_address_and_all_together_hold_no_more_than_their_share() {
        let peers = peers();
        let [a, b] = [(); 2].map(|()| peers.connect(address(1)).unwrap());
        let (mut first, mut second) = (a.room(), a.room());
        assert!(first.grow(200) && second.grow(50));
        assert!(!second.grow(1), "a connection has a quarter");
        let mut third = b.room();
        assert!(third.grow(250));
        let [c, d] = [2, 3].map(|last| peers.connect(address(last)).unwrap());
        let mut others = [c.room(), d.room()];
        assert!(others[0].grow(250) && others[1].grow(249));
        assert!(!others[1].grow(2) && others[1].grow(1), "all together hold no more than all");
        let mut e = peers.connect(address(4)).unwrap().room();
        assert!(!e.grow(1));
        drop(first);
        assert!(e.grow(200));
        drop((second, third, others, e));
        assert_eq!(peers.used(), (0, 0));
    }

    #[test]
    fn who_sends_large_bodies_is_slowed_and_others_are_not() {
        let peers = peers();
        let [a, b] = [1, 2].map(|last| peers.connect(address(last)).unwrap());
        assert_eq!(a.room().pace(LARGE_BODY_RATE / 10), Duration::ZERO);
        let pause = a.room().pace(LARGE_BODY_RATE);
        assert!(pause > Duration::from_millis(500), "{pause:?}");
        assert_eq!(b.room().pace(LARGE_BODY_RATE / 10), Duration::ZERO);
    }

    #[test]
    fn an_address_has_half_of_the_reviews() {
        let peers = peers();
        let [a, b] = [1, 2].map(|last| peers.connect(address(last)).unwrap());
        let held = [(); 2].map(|()| a.review().unwrap());
        assert!(a.review().is_none());
        let others = [(); 2].map(|()| b.review().unwrap());
        drop(held);
        assert!(a.review().is_some());
        drop(others);
        assert_eq!(peers.used(), (0, 0));
    }
}
