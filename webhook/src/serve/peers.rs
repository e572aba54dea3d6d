//! The connected clients, and the resources of each: connections, bytes of bodies and responses, reviews.
//!
//! Anyone who can reach the admission port may open connections and send slowly, send much, or never read a response.
//! Each connection and each address therefore has a limited share of bytes and reviews, so that none can exhaust what
//! the API servers need.
//!
//! Connections have no fixed share: where there are too many, a new one takes the place of an old one of the address
//! that holds most. Otherwise a few addresses with their shares would fill the server. A connection before its TLS
//! handshake only ever displaces another one before its handshake, and a connection that has carried a review is
//! displaced last, and by none of an address that holds as many.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::limits::{LARGE_BODY_RATE, Limits};

/// How far an address may be ahead of [`LARGE_BODY_RATE`], so that a single large body is read at once.
const AHEAD: Duration = Duration::from_millis(200);

/// Maximum number of connections before TLS, as a multiple of [`Limits::connections`]. Each holds a socket and a task.
const HANDSHAKES: usize = 2;

/// All clients of a listener.
#[derive(Debug)]
pub(crate) struct Peers {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the next connection.
    next: u64,
    counts: Counts,
    bytes: usize,
    reviews: usize,
    addresses: BTreeMap<IpAddr, Used>,
}

/// What a connection has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It has no TLS session yet.
    Handshake,
    /// It has one, and has carried no review.
    Open,
    Reviewed,
}

/// The number of connections in each [`Stage`].
#[derive(Clone, Copy, Debug, Default)]
struct Counts([usize; 3]);

impl Counts {
    fn of(self, stage: Stage) -> usize {
        self.0[stage as usize]
    }

    /// Connections with a TLS session.
    fn established(self) -> usize {
        self.of(Stage::Open) + self.of(Stage::Reviewed)
    }

    /// Moves a connection from a stage to another one, or counts a new or a removed one.
    fn change(&mut self, from: Option<Stage>, to: Option<Stage>) {
        if let Some(from) = from {
            self.0[from as usize] = self.of(from).saturating_sub(1);
        }
        if let Some(to) = to {
            self.0[to as usize] += 1;
        }
    }
}

/// The resources of an address.
#[derive(Debug, Default)]
struct Used {
    /// The connections that are not displaced, by number, so that the oldest is first.
    connections: BTreeMap<u64, (Stage, Arc<Notify>)>,
    counts: Counts,
    /// The number of [`Peer`]s, those of displaced connections included.
    peers: usize,
    bytes: usize,
    /// Reviews by account.
    reviews: BTreeMap<u64, usize>,
    /// The time at which all received bytes of large bodies would have arrived at [`LARGE_BODY_RATE`].
    paced: Option<Instant>,
}

impl State {
    /// Moves a connection to another stage, or removes it. Returns false if it is not there, because it was displaced.
    fn advance(&mut self, address: IpAddr, number: u64, to: Option<Stage>) -> bool {
        let Some(used) = self.addresses.get_mut(&address) else { return false };
        let Some(own) = used.connections.get_mut(&number) else { return false };
        let from = Some(own.0);
        match to {
            Some(to) => own.0 = to,
            None => drop(used.connections.remove(&number)),
        }
        used.counts.change(from, to);
        self.counts.change(from, to);
        true
    }

    /// Displaces the oldest connection in a stage of the address with the greatest `weight`, if that is more than
    /// `least`. Of equal addresses it is the one with the oldest connection. Returns whether there was one.
    fn displace(&mut self, stage: Stage, weight: impl Fn(Counts) -> usize, least: usize) -> bool {
        let oldest = |used: &Used| {
            let found = used.connections.iter().find(|(_, (of, _))| *of == stage);
            found.map(|(number, (_, displaced))| (*number, Arc::clone(displaced)))
        };
        let heaviest =
            self.addresses.iter().filter(|(_, used)| used.counts.of(stage) > 0).max_by_key(|(_, used)| {
                let number = oldest(used).map(|(number, _)| number);
                (weight(used.counts), Reverse(number))
            });
        let Some((address, used)) = heaviest.filter(|(_, used)| weight(used.counts) > least) else {
            return false;
        };
        let address = *address;
        let Some((number, displaced)) = oldest(used) else { return false };
        displaced.notify_one();
        self.advance(address, number, None)
    }
}

/// A client's connection. Its bytes and reviews count until it and all its rooms and reviews are dropped.
#[derive(Debug)]
pub(crate) struct Peer {
    peers: Arc<Peers>,
    address: IpAddr,
    number: u64,
    displaced: Arc<Notify>,
    has_reviewed: AtomicBool,
    /// Bytes that are held for this connection.
    bytes: Mutex<usize>,
}

impl Peers {
    pub(crate) fn new(limits: Limits) -> Arc<Peers> {
        Arc::new(Peers { limits, state: Mutex::default() })
    }

    /// Registers a new connection of an address. If there are too many before TLS, another one of these is displaced.
    pub(crate) fn connect(self: &Arc<Peers>, address: IpAddr) -> Arc<Peer> {
        // An IPv4 client of an IPv6 socket is the same client.
        let address = address.to_canonical();
        let displaced = Arc::new(Notify::new());
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        let used = state.addresses.entry(address).or_default();
        used.connections.insert(number, (Stage::Handshake, Arc::clone(&displaced)));
        used.counts.change(None, Some(Stage::Handshake));
        used.peers += 1;
        state.counts.change(None, Some(Stage::Handshake));
        if state.counts.of(Stage::Handshake) > HANDSHAKES * self.limits.connections {
            state.displace(Stage::Handshake, |counts| counts.of(Stage::Handshake), 0);
        }
        drop(state);
        let (has_reviewed, bytes) = (AtomicBool::new(false), Mutex::new(0));
        Arc::new(Peer { peers: Arc::clone(self), address, number, displaced, has_reviewed, bytes })
    }

    /// Displaces a connection that has carried no review; returns whether there was one. For a process that can open
    /// no more sockets.
    pub(crate) fn make_room(&self) -> bool {
        let mut state = self.lock();
        let all = |counts: Counts| counts.of(Stage::Handshake) + counts.established();
        state.displace(Stage::Handshake, all, 0) || state.displace(Stage::Open, all, 0)
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

    /// Records that the connection has a TLS session. If there are too many of these, one that has carried no review
    /// is displaced, or else one of an address that holds more than this one. Returns whether it may stay.
    pub(crate) fn established(&self) -> bool {
        let mut state = self.peers.lock();
        if !state.advance(self.address, self.number, Some(Stage::Open)) {
            return false;
        }
        if state.counts.established() <= self.peers.limits.connections {
            return true;
        }
        let all_others_have_reviewed = state.counts.of(Stage::Open) == 1;
        if !all_others_have_reviewed {
            return state.displace(Stage::Open, Counts::established, 0);
        }
        let own = state.addresses.get(&self.address).map_or(0, |used| used.counts.established());
        let stays = state.displace(Stage::Reviewed, Counts::established, own);
        if !stays {
            state.advance(self.address, self.number, None);
        }
        stays
    }

    /// Records that the connection has carried a review.
    pub(crate) fn reviewed(&self) {
        if !self.has_reviewed.swap(true, Ordering::Relaxed) {
            self.peers.lock().advance(self.address, self.number, Some(Stage::Reviewed));
        }
    }

    /// Completes when the connection has to make room for another one.
    pub(crate) async fn displaced(&self) {
        self.displaced.notified().await;
    }

    /// Room for bytes that the server holds because of this connection, initially empty.
    pub(crate) fn room(self: &Arc<Peer>) -> Room {
        Room { peer: Arc::clone(self), bytes: 0 }
    }

    /// Counts a review that is running or waiting, for an account of this address; `None` if there are too many of the
    /// account, of the address or of all.
    pub(crate) fn review(self: &Arc<Peer>, account: u64) -> Option<Review> {
        let most = self.peers.limits.reviews;
        let mut state = self.peers.lock();
        let of_all = state.reviews;
        let used = state.addresses.get_mut(&self.address)?;
        let of_address: usize = used.reviews.values().sum();
        let of_account = used.reviews.get(&account).copied().unwrap_or_default();
        if of_all >= most || of_address >= most.div_ceil(2) || of_account >= most.div_ceil(4) {
            return None;
        }
        *used.reviews.entry(account).or_default() += 1;
        state.reviews += 1;
        Some(Review { peer: Arc::clone(self), account })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let mut state = self.peers.lock();
        state.advance(self.address, self.number, None);
        if let Some(used) = state.addresses.get_mut(&self.address) {
            used.peers = used.peers.saturating_sub(1);
            // Rooms and reviews keep their `Peer`, so nothing else is used when the last one ends.
            if used.peers == 0 {
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
        let Some(used) = state.addresses.get_mut(&self.peer.address) else { return false };
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
    account: u64,
}

impl Drop for Review {
    fn drop(&mut self) {
        let mut state = self.peer.peers.lock();
        state.reviews = state.reviews.saturating_sub(1);
        let used = state.addresses.get_mut(&self.peer.address);
        if let Some(used) = used
            && let Entry::Occupied(mut count) = used.reviews.entry(self.account)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
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
    use futures::FutureExt;

    use super::*;

    fn peers() -> Arc<Peers> {
        Peers::new(Limits { held: 1000, reviews: 4, connections: 8, ..Limits::default() })
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    /// Whether a connection is displaced.
    fn is_displaced(peer: &Peer) -> bool {
        peer.displaced().now_or_never().is_some()
    }

    #[test]
    fn the_heaviest_address_loses_its_oldest_connection_before_tls() {
        let peers = peers();
        let api_server = peers.connect(address(9));
        let many = [(); 10].map(|()| peers.connect(address(1)));
        let mapped = peers.connect("::ffff:10.0.0.1".parse().unwrap());
        let few = [(); 4].map(|()| peers.connect(address(2)));
        assert!(!many.iter().any(|peer| is_displaced(peer)), "sixteen fit");
        let newcomers = [(); 3].map(|()| peers.connect(address(3)));
        let displaced: Vec<bool> = many.iter().map(|peer| is_displaced(peer)).collect();
        assert_eq!(displaced[..4], [true, true, true, false]);
        let others = few.iter().chain(&newcomers).chain([&api_server, &mapped]);
        assert!(!others.into_iter().any(|peer| is_displaced(peer)));
        drop((api_server, many, mapped, few, newcomers));
        assert!(peers.lock().addresses.is_empty(), "who left is forgotten");
    }

    #[test]
    fn a_connection_before_tls_displaces_none_that_is_open() {
        let peers = peers();
        let open = [(); 8].map(|()| peers.connect(address(1)));
        assert!(open.iter().all(|peer| peer.established()));
        let _crowd = [(); 100].map(|()| peers.connect(address(2)));
        assert!(!open.iter().any(|peer| is_displaced(peer)));
    }

    #[test]
    fn who_has_carried_a_review_is_displaced_last_and_by_lighter_addresses_alone() {
        let peers = peers();
        let establish = |last: u8| {
            let peer = peers.connect(address(last));
            (peer.established(), peer)
        };
        let reviewed = |(stays, peer): (bool, Arc<Peer>)| {
            assert!(stays);
            peer.reviewed();
            peer
        };
        let api_server = [(); 2].map(|()| reviewed(establish(9)));
        let open = [(); 3].map(|()| establish(1).1);
        let heavy = [(); 3].map(|()| reviewed(establish(2)));
        // Eight are established, so each new one takes the place of one that has carried no review.
        let mut more = vec![reviewed(establish(3))];
        assert_eq!(open.each_ref().map(|peer| is_displaced(peer)), [true, false, false]);
        more.extend([5, 6].map(|last| reviewed(establish(last))));
        assert_eq!(open.each_ref().map(|peer| is_displaced(peer)), [false, true, true]);
        // All have carried reviews: the heaviest address gets no more, another one takes a place of it.
        assert!(!establish(2).0);
        assert!(establish(4).0);
        assert_eq!(heavy.each_ref().map(|peer| is_displaced(peer)), [true, false, false]);
        assert!(!api_server.iter().chain(&more).any(|peer| is_displaced(peer)));
    }

    #[test]
    fn a_connection_an_address_and_all_together_hold_no_more_than_their_share() {
        let peers = peers();
        let [a, b] = [(); 2].map(|()| peers.connect(address(1)));
        let (mut first, mut second) = (a.room(), a.room());
        assert!(first.grow(200) && second.grow(50));
        assert!(!second.grow(1), "a connection has a quarter");
        let mut third = b.room();
        assert!(third.grow(250));
        let [c, d] = [2, 3].map(|last| peers.connect(address(last)));
        let mut others = [c.room(), d.room()];
        assert!(others[0].grow(250) && others[1].grow(249));
        assert!(!others[1].grow(2) && others[1].grow(1), "all together hold no more than all");
        let mut e = peers.connect(address(4)).room();
        assert!(!e.grow(1));
        drop(first);
        assert!(e.grow(200));
        drop((second, third, others, e));
        assert_eq!(peers.used(), (0, 0));
    }

    #[test]
    fn who_sends_large_bodies_is_slowed_and_others_are_not() {
        let peers = peers();
        let [a, b] = [1, 2].map(|last| peers.connect(address(last)));
        assert_eq!(a.room().pace(LARGE_BODY_RATE / 10), Duration::ZERO);
        let pause = a.room().pace(LARGE_BODY_RATE);
        assert!(pause > Duration::from_millis(500), "{pause:?}");
        assert_eq!(b.room().pace(LARGE_BODY_RATE / 10), Duration::ZERO);
    }

    #[test]
    fn an_address_has_half_of_the_reviews_and_an_account_half_of_those() {
        let peers = peers();
        let [a, b] = [1, 2].map(|last| peers.connect(address(last)));
        let held = [7, 8].map(|account| a.review(account).unwrap());
        assert!(a.review(9).is_none());
        let others = b.review(7).unwrap();
        assert!(b.review(7).is_none(), "the account has its share");
        drop(held);
        assert!(a.review(7).is_some());
        drop(others);
        assert_eq!(peers.used(), (0, 0));
    }
}
